/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_codec.h. A value is schema version (varint) | NULL area | NOT NULL fixed columns | other fixed columns
   that are not NULL | length (varint) of each variable column that is not NULL | their bytes. */

#include "format/row_codec.h"

#include <alloca.h>

#include <algorithm>
#include <new>

#include "format/row_earlier.h"
#include "format/row_inherit.h"
#include "format/row_plan.h"
#include "format/row_values.h"

namespace teak {

RowCodec::RowCodec(std::unique_ptr<RowPlan> plan) : plan_(std::move(plan)) {}
RowCodec::~RowCodec() = default;

std::unique_ptr<RowCodec> RowCodec::create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                           uint32_t schema_version, const RowHistory *history, std::string *error) try {
  std::unique_ptr<RowPlan> plan = RowPlan::create(table, std::move(primary), schema_version, error);
  if (plan == nullptr) return nullptr;
  std::unique_ptr<RowCodec> codec(new RowCodec(std::move(plan)));
  if (history == nullptr || history->empty()) return codec;
  codec->earlier_ = EarlierRows::create(*codec->plan_, *history, error);
  return codec->earlier_ == nullptr ? nullptr : std::move(codec);
} catch (const std::bad_alloc &) {
  *error = "out of memory";
  return nullptr;
}

bool RowCodec::needs_all(const my_bitmap_map *read, size_t words) const {
  const std::vector<uint64_t> &stored = plan_->stored_bits;
  const size_t end = std::min(words, stored.size());
  for (size_t i = 0; i < end; i++)
    if ((stored[i] & ~read[i]) != 0) return false;
  return true;
}

std::vector<uint64_t> RowCodec::columns_for(const std::vector<my_bitmap_map> &read) const {
  constexpr size_t BITS = 64;
  static_assert(sizeof(my_bitmap_map) == sizeof(uint64_t), "a word of a bitmap has 64 columns");
  const std::vector<uint64_t> &stored = plan_->stored_bits;
  const size_t words = std::min(read.size(), stored.size());
  std::vector<uint64_t> needed(plan_->always_read);
  for (size_t i = 0; i < words; i++)
    for (uint64_t bits = stored[i] & read[i]; bits != 0; bits &= bits - 1) {
      const size_t number = plan_->stored_numbers[i * BITS + static_cast<size_t>(__builtin_ctzll(bits))];
      needed[number / BITS] |= uint64_t{1} << (number % BITS);
    }
  return needed;
}

size_t RowCodec::number_of(uint32_t column) const {
  return column < plan_->stored_numbers.size() ? plan_->stored_numbers[column] : 0;
}

teak_slice RowCodec::beginning() const { return {plan_->header, plan_->header_bytes}; }

uint32_t RowCodec::schema_version() const { return plan_->schema_version; }
const ColumnLayout &RowCodec::layout() const { return plan_->layout; }

uint32_t RowCodec::fixed_bytes() const {
  return static_cast<uint32_t>(plan_->header_bytes + plan_->null_mask.size() + plan_->run_bytes);
}

const std::vector<teak_column> &RowCodec::fixed_columns() const { return plan_->fixed_columns; }

const std::vector<teak_optional_column> &RowCodec::optional_columns() const { return plan_->optional_columns; }
const std::vector<uint32_t> &RowCodec::variable_columns() const { return plan_->variable_columns; }

std::vector<uint32_t> RowCodec::stored_columns() const {
  std::vector<uint32_t> columns;
  for (const RowPlan::Stored &stored : plan_->stored_columns) columns.push_back(stored.column);
  return columns;
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
    if (!conversion_of(theirs, i, mine, i).keeps_bytes()) return false;
  }
  return true;
}

const char *RowCodec::inherit(const RowCodec &other, const std::vector<uint32_t> &old_columns, const uchar *record,
                              RowHistory *history) const {
  return inherit_history(*plan_, *other.plan_, old_columns, record, history);
}

void RowCodec::encode(const uchar *record, ByteBuffer *out) const {
  const RowPlan &plan = *plan_;
  const size_t variables = plan.variables.size();
  auto *slices = static_cast<Slice *>(alloca((variables + 1) * sizeof(Slice)));
  size_t bytes_max = plan.fixed_bytes_max + variables * VARINT_BYTES_MAX, present = 0;
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
  for (size_t i = 0; i < present; i++) to = put_varint(to, slices[i].length);
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
  for (size_t i = 0; i < plan.header_bytes; i++, from++)
    if (from == end || *from != plan.header[i])
      return earlier_ != nullptr && earlier_->decode(value, length, record, read_set, blobs);
  if (length < plan.header_bytes + null_bytes + plan.run_bytes) return false;
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
    if (!take_varint(&from, end, &lengths[i]) || lengths[i] > column.bytes_max) return false;
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
