/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See key_originals.h. For each column: 0 if it is NULL, otherwise a varint of the length plus one, and the bytes.
   The padding of a CHAR is omitted, except in ucs2, utf16, utf16le and utf32. */

#include "format/key_originals.h"

#include <new>
#include <string>

#include "sql_class.h"

#include "field.h"
#include "table.h"

#include "format/bytes.h"
#include "format/key_part.h"

namespace teak {

namespace {

/* Whether the part is stored as an original. A part that the key's bytes can be decoded to needs none. A TEXT or a
   prefix of a column has none, because the entry would not contain the whole value. */
bool needs_original(const KeyPart &part) { return !part.decodable && !part.prefix && part.form != KeyPart::Form::Blob; }

bool is_filled(const KeyPart &part) { return part.form == KeyPart::Form::Char && part.collation->mbminlen == 1; }

constexpr ptrdiff_t LENGTH_BYTES_MAX = 4;

bool put_length(size_t length, ByteBuffer *out) {
  uint8_t *to = out->reserve(VARINT_BYTES_MAX);
  if (to == nullptr) return false;
  out->advance(static_cast<size_t>(put_varint(to, length) - to));
  return true;
}

bool take_length(const uint8_t **from, const uint8_t *end, uint32_t *length) {
  const uint8_t *start = *from;
  return take_varint(from, end, length) && *from - start <= LENGTH_BYTES_MAX;
}

}  // namespace

KeyOriginals::KeyOriginals() = default;
KeyOriginals::~KeyOriginals() = default;

bool KeyOriginals::create(const TABLE *table, uint key_number, std::unique_ptr<KeyOriginals> *originals,
                          std::string *error) try {
  originals->reset();
  const KEY &key = table->key_info[key_number];
  std::unique_ptr<KeyOriginals> created(new KeyOriginals);
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    KeyPart part;
    std::string reason;
    if (!KeyPart::describe(key.key_part[i], table->field[key.key_part[i].fieldnr - 1], table->record[0], &part,
                           &reason))
      return true;
    if (needs_original(part)) created->parts_.push_back(std::move(part));
  }
  if (!created->parts_.empty()) *originals = std::move(created);
  return true;
} catch (const std::bad_alloc &) {
  *error = "out of memory";
  return false;
}

bool KeyOriginals::stores(const TABLE_SHARE *share, uint key_number, uint part_number) try {
  const KEY &key = share->key_info[key_number];
  if (part_number >= key.user_defined_key_parts) return false;
  const KEY_PART_INFO &server_part = key.key_part[part_number];
  if (server_part.fieldnr == 0) return false;
  KeyPart part;
  std::string reason;
  return KeyPart::describe(server_part, share->field[server_part.fieldnr - 1], share->default_values, &part, &reason) &&
         needs_original(part);
} catch (const std::bad_alloc &) {
  return false;
}

size_t KeyOriginals::count() const { return parts_.size(); }
uint KeyOriginals::column(size_t number) const { return parts_[number].column; }

void KeyOriginals::encode(const uchar *record, ByteBuffer *out) const {
  for (const KeyPart &part : parts_) {
    if (part.is_null(record)) {
      out->push(0);
      continue;
    }
    const uchar *value = record + part.offset;
    size_t length = part.width;
    if (part.form == KeyPart::Form::Varchar) {
      length = load_little(value, part.length_bytes);
      if (length > part.field_bytes_max) length = part.field_bytes_max;
      value += part.length_bytes;
    } else if (is_filled(part)) {
      while (length != 0 && value[length - 1] == ' ') length--;
    }
    put_length(length + 1, out);
    out->append(value, length);
  }
}

bool KeyOriginals::decode(const uint8_t *bytes, size_t length, uchar *record, const MY_BITMAP *columns) const {
  const uint8_t *const end = bytes + length;
  for (const KeyPart &part : parts_) {
    uint32_t size;
    if (!take_length(&bytes, end, &size)) return false;
    const bool null = size == 0;
    if (null && !part.nullable) return false;
    if (!null) size--;
    if (size > static_cast<size_t>(end - bytes)) return false;
    const bool varies = part.form == KeyPart::Form::Varchar;
    if (size > (varies ? part.field_bytes_max : part.width)) return false;
    if (!null && !varies && !is_filled(part) && size != part.width) return false;
    if (bitmap_is_set(columns, part.column)) {
      if (part.nullable) {
        uchar &nulls = record[part.null_offset];
        nulls = static_cast<uchar>(null ? nulls | part.null_bit : nulls & ~part.null_bit);
      }
      uchar *to = record + part.offset;
      if (!null && varies) {
        store_little(to, size, part.length_bytes);
        memcpy(to + part.length_bytes, bytes, size);
      } else if (!null) {
        memcpy(to, bytes, size);
        memset(to + size, ' ', part.width - size);
      }
    }
    bytes += size;
  }
  return bytes == end;
}

}  // namespace teak
