/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The RowCodec of row_codec.h. A value is
       schema version (varint) | NULL area | NOT NULL fixed columns | other fixed columns that are not NULL |
       length (varint) of each variable column that is not NULL | their bytes
   and ends there. */

#include "row_codec.h"

#include <alloca.h>

#include <algorithm>
#include <new>

#include "codec_bytes.h"
#include "row_plan.h"

namespace teak {

namespace {

constexpr size_t LENGTH_BYTES_MAX = 5;

struct Slice {
  const uint8_t *bytes;
  size_t length;
};

inline uint8_t *put_length(uint8_t *to, size_t length) {
  while (length >= 0x80) {
    *to++ = static_cast<uint8_t>(length | 0x80);
    length >>= 7;
  }
  *to++ = static_cast<uint8_t>(length);
  return to;
}

inline bool take_length(const uint8_t **from, const uint8_t *end, uint32_t *length) {
  if (*from == end) return false;
  uint8_t byte = *(*from)++;
  if (byte < 0x80) {
    *length = byte;
    return true;
  }
  uint64_t value = byte & 0x7F;
  for (unsigned shift = 7; shift < 7 * LENGTH_BYTES_MAX; shift += 7) {
    if (*from == end) return false;
    byte = *(*from)++;
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *length = static_cast<uint32_t>(value);
      return value <= UINT32_MAX;
    }
  }
  return false;
}

inline void copy_fixed(uint8_t *to, const uint8_t *from, uint32_t width) {
  switch (width) {
    case 1:
      *to = *from;
      break;
    case 2:
      memcpy(to, from, 2);
      break;
    case 3:
      memcpy(to, from, 3);
      break;
    case 4:
      memcpy(to, from, 4);
      break;
    case 8:
      memcpy(to, from, 8);
      break;
    default:
      memcpy(to, from, width);
      break;
  }
}

size_t without_padding(const uchar *string, size_t length, uint8_t pad) {
  const uint64_t pads = 0x0101010101010101ULL * pad;
  while (length >= 8 && load_little(string + length - 8, 8) == pads) length -= 8;
  while (length > 0 && string[length - 1] == pad) length--;
  return length;
}

Slice slice_of(const RowPlan::Variable &column, const uchar *record) {
  const uchar *value = record + column.offset;
  switch (column.kind) {
    case RowPlan::Kind::Varchar: {
      size_t length = load_little(value, column.length_bytes);
      return {value + column.length_bytes, length < column.bytes_max ? length : column.bytes_max};
    }
    case RowPlan::Kind::Blob: {
      const uchar *blob;
      memcpy(&blob, value + column.length_bytes, sizeof blob);
      return {blob, blob == nullptr ? 0 : load_little(value, column.length_bytes)};
    }
    case RowPlan::Kind::Char:
      return {value, without_padding(value, column.bytes_max, column.pad)};
    default:
      return {value, column.collation->lengthsp(reinterpret_cast<const char *>(value), column.bytes_max)};
  }
}

/* The column is NULL: nothing of an earlier row may be left for code that looks before it asks. */
void clear_variable(const RowPlan::Variable &column, uchar *record) {
  uchar *value = record + column.offset;
  switch (column.kind) {
    case RowPlan::Kind::Varchar:
      store_little(value, 0, column.length_bytes);
      break;
    case RowPlan::Kind::Blob:
      memset(value, 0, column.length_bytes + sizeof(uchar *));
      break;
    default:
      memset(value, 0, column.bytes_max);
      break;
  }
}

bool set_variable(const RowPlan::Variable &column, const uint8_t *bytes, uint32_t length, uchar *record,
                  BlobArena *blobs) {
  uchar *value = record + column.offset;
  switch (column.kind) {
    case RowPlan::Kind::Varchar:
      store_little(value, length, column.length_bytes);
      memcpy(value + column.length_bytes, bytes, length);
      return true;
    case RowPlan::Kind::Blob:
      store_little(value, length, column.length_bytes);
      if (blobs != nullptr && length != 0) bytes = blobs->copy(bytes, length);
      memcpy(value + column.length_bytes, &bytes, sizeof bytes);
      return bytes != nullptr;
    case RowPlan::Kind::Char:
      memcpy(value, bytes, length);
      memset(value + length, column.pad, column.bytes_max - length);
      return true;
    default:
      memcpy(value, bytes, length);
      column.collation->fill(reinterpret_cast<char *>(value) + length, column.bytes_max - length, ' ');
      return true;
  }
}

inline bool is_null(const RowPlan::Variable &column, const uchar *record) {
  return (record[column.null_offset] & column.null_bit) != 0;  // null_bit 0: never
}

}  // namespace

RowCodec::RowCodec(std::unique_ptr<RowPlan> plan) : plan_(std::move(plan)) {}
RowCodec::~RowCodec() = default;

std::unique_ptr<RowCodec> RowCodec::create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                           uint32_t schema_version, std::string *error) try {
  std::unique_ptr<RowPlan> plan = RowPlan::create(table, std::move(primary), schema_version, error);
  if (plan == nullptr) return nullptr;
  return std::unique_ptr<RowCodec>(new RowCodec(std::move(plan)));
} catch (const std::bad_alloc &) {
  *error = "out of memory";
  return nullptr;
}

uint32_t RowCodec::schema_version() const { return plan_->schema_version; }
const ColumnLayout &RowCodec::layout() const { return plan_->layout; }

uint32_t RowCodec::fixed_bytes() const {
  return static_cast<uint32_t>(plan_->header_bytes + plan_->null_mask.size() + plan_->run_bytes);
}

bool RowCodec::same_form(const RowCodec &other, const std::vector<uint32_t> &old_columns) const {
  const RowPlan &mine = *plan_, &theirs = *other.plan_;
  auto was = [&](uint32_t column, uint32_t old_column) {
    return column < old_columns.size() && old_columns[column] == old_column;
  };
  if (mine.schema_version != theirs.schema_version || mine.null_mask != theirs.null_mask ||
      mine.primary_columns.size() != theirs.primary_columns.size() ||
      mine.layout.columns.size() != theirs.layout.columns.size() || mine.variables.size() != theirs.variables.size())
    return false;
  for (size_t i = 0; i < mine.primary_columns.size(); i++)
    if (!was(mine.primary_columns[i], theirs.primary_columns[i])) return false;
  for (size_t i = 0; i < mine.layout.columns.size(); i++) {
    const ColumnLayout::Column &left = mine.layout.columns[i], &right = theirs.layout.columns[i];
    if (!was(left.column, right.column) || left.width != right.width || left.null_bit != right.null_bit) return false;
  }
  for (size_t i = 0; i < mine.variables.size(); i++) {
    const RowPlan::Variable &left = mine.variables[i], &right = theirs.variables[i];
    const bool padded = left.kind == RowPlan::Kind::Char || left.kind == RowPlan::Kind::WideChar;
    if (left.kind != right.kind || left.pad != right.pad || left.bytes_max < right.bytes_max ||
        (padded && left.bytes_max != right.bytes_max))
      return false;
  }
  return true;
}

bool RowCodec::schema_version_of(const uint8_t *value, size_t length, uint32_t *version) {
  return take_length(&value, value + length, version);
}

void RowCodec::encode(const uchar *record, ByteBuffer *out) const {
  const RowPlan &plan = *plan_;
  const size_t variables = plan.variables.size();
  auto *slices = static_cast<Slice *>(alloca((variables + 1) * sizeof(Slice)));
  size_t bytes_max = plan.fixed_bytes_max + variables * LENGTH_BYTES_MAX, present = 0;
  for (const RowPlan::Variable &column : plan.variables) {
    if (is_null(column, record)) continue;
    slices[present] = slice_of(column, record);
    bytes_max += slices[present++].length;
  }
  uint8_t *start = out->reserve(bytes_max), *to = start;
  if (start == nullptr) return;
  for (size_t i = 0; i < plan.header_bytes; i++) *to++ = plan.header[i];
  const size_t null_bytes = plan.null_mask.size();
  for (size_t i = 0; i < null_bytes; i++) *to++ = record[i] & plan.null_mask[i];
  for (const RowPlan::Run &run : plan.runs) {
    copy_fixed(to, record + run.offset, run.length);
    to += run.length;
  }
  for (const RowPlan::Nullable &column : plan.nullables) {
    if ((record[column.null_offset] & column.null_bit) != 0) continue;
    copy_fixed(to, record + column.offset, column.width);
    to += column.width;
  }
  for (size_t i = 0; i < present; i++) to = put_length(to, slices[i].length);
  for (size_t i = 0; i < present; i++) {
    if (slices[i].length != 0) memcpy(to, slices[i].bytes, slices[i].length);
    to += slices[i].length;
  }
  out->advance(static_cast<size_t>(to - start));
}

bool RowCodec::decode(const uint8_t *value, size_t length, const uint8_t *key, size_t key_length, uchar *record,
                      const MY_BITMAP *read_set, BlobArena *blobs) const {
  const RowPlan &plan = *plan_;
  if (plan.primary != nullptr) {
    bool wanted = read_set == nullptr;
    for (uint32_t column : plan.primary_columns) wanted = wanted || bitmap_is_set(read_set, column);
    if (wanted && !plan.primary->decode(key, key_length, record, read_set)) return false;
  }

  const uint8_t *from = value, *end = value + length;
  const size_t null_bytes = plan.null_mask.size();
  if (length < plan.header_bytes + null_bytes + plan.run_bytes) return false;
  for (size_t i = 0; i < plan.header_bytes; i++)
    if (*from++ != plan.header[i]) return false;
  for (size_t i = 0; i < null_bytes; i++, from++) {
    if ((*from & ~plan.null_mask[i]) != 0) return false;
    record[i] = static_cast<uchar>((record[i] & ~plan.null_mask[i]) | *from);
  }
  for (const RowPlan::Run &run : plan.runs) {
    copy_fixed(record + run.offset, from, run.length);
    from += run.length;
  }
  for (const RowPlan::Nullable &column : plan.nullables) {
    uchar *to = record + column.offset;
    if ((record[column.null_offset] & column.null_bit) != 0) {
      memset(to, 0, column.width);
      continue;
    }
    if (static_cast<size_t>(end - from) < column.width) return false;
    copy_fixed(to, from, column.width);
    from += column.width;
  }

  const size_t variables = plan.variables.size();
  auto *lengths = static_cast<uint32_t *>(alloca((variables + 1) * sizeof(uint32_t)));
  uint64_t total = 0;
  for (size_t i = 0; i < variables; i++) {
    const RowPlan::Variable &column = plan.variables[i];
    lengths[i] = 0;
    if (is_null(column, record)) continue;
    if (!take_length(&from, end, &lengths[i]) || lengths[i] > column.bytes_max) return false;
    total += lengths[i];
  }
  if (total != static_cast<uint64_t>(end - from)) return false;
  for (size_t i = 0; i < variables; i++) {
    const RowPlan::Variable &column = plan.variables[i];
    if (read_set == nullptr || bitmap_is_set(read_set, column.column)) {
      if (is_null(column, record))
        clear_variable(column, record);
      else if (!set_variable(column, from, lengths[i], record, blobs))
        return false;
    }
    from += lengths[i];
  }
  return true;
}

}  // namespace teak
