/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See record_packer.h. */

#include "format/record_packer.h"

#include <cstring>

#include "format/field_types.h"

namespace teak {

namespace {

/* A VARCHAR of at most so many bytes is copied whole. */
constexpr uint32_t SHORT_BYTES = 24;

size_t length_at(const uint8_t *from, uint8_t length_bytes) {
  size_t length = 0;
  for (uint8_t i = 0; i < length_bytes; i++) length |= static_cast<size_t>(from[i]) << 8 * i;
  return length;
}

/* Whether a column is virtual and in no key: its bytes in a record that is written may be undefined. */
bool is_unused(const TABLE &table, const Field &field) {
  if (field.stored_in_db()) return false;
  for (uint key = 0; key < table.s->keys; key++) {
    const KEY &info = table.key_info[key];
    for (uint part = 0; part < info.user_defined_key_parts; part++)
      if (info.key_part[part].fieldnr == field.field_index + 1U) return false;
  }
  return true;
}

}  // namespace

RecordPacker::RecordPacker(const TABLE &table) : record_bytes_(table.s->reclength) {
  add_fixed(0, table.s->null_bytes);
  for (uint i = 0; i < table.s->fields; i++) {
    const Field &field = *table.field[i];
    if (is_unused(table, field)) continue;
    const uint32_t offset = static_cast<uint32_t>(field.ptr - table.record[0]), length = field.pack_length_in_rec();
    Part part = {Kind::Fixed, 0, 0, 0, offset, length};
    if (field.flags & BLOB_FLAG) {
      part.kind = Kind::Blob;
      part.length_bytes = static_cast<uint8_t>(static_cast<const Field_blob &>(field).pack_length_no_ptr());
    } else if (is_varchar(&field) && length > SHORT_BYTES) {
      part.kind = Kind::Variable;
      part.length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring &>(field).length_bytes);
      part.length = length - part.length_bytes;
    }
    if (part.kind == Kind::Fixed) {
      add_fixed(offset, length);
      continue;
    }
    if (field.null_ptr != nullptr) {
      part.null_bit = field.null_bit;
      part.null_offset = static_cast<uint32_t>(field.null_ptr - table.record[0]);
    }
    parts_.push_back(part);
  }
}

void RecordPacker::add_fixed(uint32_t offset, uint32_t length) {
  if (!parts_.empty() && parts_.back().kind == Kind::Fixed && parts_.back().offset + parts_.back().length == offset)
    parts_.back().length += length;
  else if (length != 0)
    parts_.push_back({Kind::Fixed, 0, 0, 0, offset, length});
}

void RecordPacker::pack(const uchar *record, ByteBuffer *out) const {
  for (const Part &part : parts_) {
    const uchar *from = record + part.offset;
    if (part.kind == Kind::Fixed) {
      out->append(from, part.length);
      continue;
    }
    if (part.null_bit != 0 && (record[part.null_offset] & part.null_bit) != 0) continue;
    size_t length = length_at(from, part.length_bytes);
    const uchar *bytes = from + part.length_bytes;
    if (part.kind == Kind::Blob)
      memcpy(&bytes, from + part.length_bytes, sizeof(bytes));
    else if (length > part.length)
      length = part.length;
    out->append(from, part.length_bytes);
    out->append(bytes, length);
  }
}

const uint8_t *RecordPacker::unpack(const uint8_t *packed, const uint8_t *end, uchar *record) const {
  for (const Part &part : parts_) {
    uchar *to = record + part.offset;
    size_t left = static_cast<size_t>(end - packed);
    if (part.kind == Kind::Fixed) {
      if (left < part.length) return nullptr;
      memcpy(to, packed, part.length);
      packed += part.length;
      continue;
    }
    if (part.null_bit != 0 && (record[part.null_offset] & part.null_bit) != 0) continue;
    if (left < part.length_bytes) return nullptr;
    const size_t length = length_at(packed, part.length_bytes);
    memcpy(to, packed, part.length_bytes);
    packed += part.length_bytes;
    if (left - part.length_bytes < length) return nullptr;
    if (part.kind == Kind::Blob) {
      memcpy(to + part.length_bytes, &packed, sizeof(packed));
    } else {
      if (length > part.length) return nullptr;
      memcpy(to + part.length_bytes, packed, length);
    }
    packed += length;
  }
  return packed;
}

}  // namespace teak
