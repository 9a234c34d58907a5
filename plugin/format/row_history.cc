/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Encoding of a RowHistory. */

#include "format/row_history.h"

#include "format/bytes.h"

namespace teak {

namespace {

/* Maximum number of columns; larger than the server's limit. Bounds the memory for untrusted bytes. */
constexpr uint32_t COLUMNS_MAX = 1 << 16;
constexpr uint32_t RECORD_BYTES_MAX = 1 << 16;
/* The form of a column: its width in the low bits, then the kind of its type, then its parameter. */
constexpr uint32_t WIDTH_BITS = 17, KIND_BITS = 3;
static_assert(RECORD_BYTES_MAX + 1 < 1U << WIDTH_BITS && StoredType::KINDS_STORED <= 1U << KIND_BITS, "");
constexpr uint32_t FORM_MAX = (StoredType::BINARY_BYTES_MAX + 1) << (WIDTH_BITS + KIND_BITS);
constexpr uint8_t FILL_NULL = 0;
constexpr uint8_t FILL_BYTES = 1;

void put(std::vector<uint8_t> *out, size_t value) {
  uint8_t bytes[VARINT_BYTES_MAX];
  out->insert(out->end(), bytes, put_varint(bytes, value));
}

/* UINT32_MAX means none, and is written as 0. */
void put_or_none(std::vector<uint8_t> *out, uint32_t value) { put(out, value == UINT32_MAX ? 0 : value + 1); }

uint32_t form_of(const ColumnLayout::Column &column) {
  const uint32_t width = column.width == ColumnLayout::VARIABLE ? 0 : column.width + 1;
  const uint32_t type = static_cast<uint32_t>(column.type.kind) | column.type.parameter << KIND_BITS;
  return width | type << WIDTH_BITS;
}

/* False: there is no such form. */
bool set_form(uint32_t form, ColumnLayout::Column *column) {
  const uint32_t width = form & ((1U << WIDTH_BITS) - 1), type = form >> WIDTH_BITS;
  const uint32_t kind = type & ((1U << KIND_BITS) - 1);
  if (width > RECORD_BYTES_MAX + 1 || kind >= StoredType::KINDS_STORED) return false;
  column->width = width == 0 ? ColumnLayout::VARIABLE : width - 1;
  column->type = {static_cast<StoredType::Kind>(kind), type >> KIND_BITS};
  return column->type.is_valid();
}

class HistoryReader {
 public:
  HistoryReader(const uint8_t *bytes, size_t length) : at_(bytes), end_(bytes + length) {}

  /* Reads a number of at most `max`, which must have its shortest encoding. */
  bool number(uint32_t max, uint32_t *value) {
    const uint8_t *start = at_;
    return take_varint(&at_, end_, value) && *value <= max && (at_ - start == 1 || at_[-1] != 0);
  }
  bool number_or_none(uint32_t max, uint32_t *value) {
    if (!number(max + 1, value)) return false;
    *value = *value == 0 ? UINT32_MAX : *value - 1;
    return true;
  }
  bool bytes(uint32_t length, std::vector<uint8_t> *out) {
    if (length > static_cast<size_t>(end_ - at_)) return false;
    out->assign(at_, at_ + length);
    at_ += length;
    return true;
  }
  bool at_end() const { return at_ == end_; }

 private:
  const uint8_t *at_, *end_;
};

bool read_fill(HistoryReader *reader, RowHistory *history) {
  RowHistory::Fill fill;
  uint32_t form, length;
  if (!reader->number(COLUMNS_MAX, &fill.column) || !reader->number(FILL_BYTES, &form)) return false;
  if (!history->fills.empty() && history->fills.back().column >= fill.column) return false;
  fill.null = form == FILL_NULL;
  if (!fill.null && (!reader->number(UINT32_MAX, &length) || !reader->bytes(length, &fill.bytes))) return false;
  history->fills.push_back(std::move(fill));
  return true;
}

/* The group of a column. Groups are in the order of the value. */
uint32_t group_of(const ColumnLayout::Column &column) {
  if (column.width == ColumnLayout::VARIABLE) return 2;
  return column.null_bit == ColumnLayout::NEVER_NULL ? 0 : 1;
}

bool read_version(HistoryReader *reader, RowHistory *history) {
  RowHistory::Version version;
  ColumnLayout &layout = version.layout;
  uint32_t count;
  if (!reader->number(UINT32_MAX - 1, &version.version) || !reader->number(RECORD_BYTES_MAX, &layout.null_area_bytes) ||
      !reader->number(COLUMNS_MAX, &count))
    return false;
  if (!history->versions.empty() && history->versions.back().version >= version.version) return false;
  std::vector<bool> used_bits(layout.null_area_bytes * 8);
  for (uint32_t i = 0; i < count; i++) {
    ColumnLayout::Column column;
    uint32_t form;
    if (!reader->number_or_none(COLUMNS_MAX, &column.column) || !reader->number(FORM_MAX, &form) ||
        !set_form(form, &column) || !reader->number_or_none(RECORD_BYTES_MAX * 8, &column.null_bit))
      return false;
    if (i != 0 && group_of(layout.columns.back()) > group_of(column)) return false;
    if (column.null_bit != ColumnLayout::NEVER_NULL) {
      if (column.null_bit >= used_bits.size() || used_bits[column.null_bit]) return false;
      used_bits[column.null_bit] = true;
    }
    layout.columns.push_back(column);
  }
  history->versions.push_back(std::move(version));
  return true;
}

}  // namespace

const RowHistory::Fill *RowHistory::fill_of(uint32_t column) const {
  for (const Fill &fill : fills)
    if (fill.column == column) return &fill;
  return nullptr;
}

void RowHistory::encode(std::vector<uint8_t> *out) const {
  put(out, fills.size());
  for (const Fill &fill : fills) {
    put(out, fill.column);
    out->push_back(fill.null ? FILL_NULL : FILL_BYTES);
    if (fill.null) continue;
    put(out, fill.bytes.size());
    out->insert(out->end(), fill.bytes.begin(), fill.bytes.end());
  }
  put(out, versions.size());
  for (const Version &version : versions) {
    put(out, version.version);
    put(out, version.layout.null_area_bytes);
    put(out, version.layout.columns.size());
    for (const ColumnLayout::Column &column : version.layout.columns) {
      put_or_none(out, column.column);
      put(out, form_of(column));
      put_or_none(out, column.null_bit);
    }
  }
}

bool RowHistory::decode(const uint8_t *bytes, size_t length, RowHistory *history, std::string *error) {
  HistoryReader reader(bytes, length);
  uint32_t count;
  *history = RowHistory();
  auto refuse = [error](const char *what) {
    *error = std::string("the description of rows written before an ALTER TABLE is malformed: ") + what;
    return false;
  };
  if (!reader.number(COLUMNS_MAX, &count)) return refuse("the number of added columns");
  for (uint32_t i = 0; i < count; i++)
    if (!read_fill(&reader, history)) return refuse("an added column");
  if (!reader.number(VERSIONS_MAX, &count) || count == 0) return refuse("the number of earlier versions");
  for (uint32_t i = 0; i < count; i++)
    if (!read_version(&reader, history)) return refuse("an earlier version");
  return reader.at_end() || refuse("its end");
}

}  // namespace teak
