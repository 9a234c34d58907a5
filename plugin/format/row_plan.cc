/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Computes a RowPlan from the server's description of a table. */

#include "format/row_plan.h"

#include <algorithm>

#include "sql_class.h"

#include "field.h"
#include "table.h"

#include "format/bytes.h"
#include "format/column_kind.h"
#include "format/field_types.h"

namespace teak {

namespace {

struct Column {
  const Field *field;
  uint32_t offset;
  uint32_t width;        // or ColumnLayout::VARIABLE
  uint32_t null_offset;  // with null_bit 0: NOT NULL
  uint8_t null_bit;

  uint32_t layout_null_bit() const {
    if (null_bit == 0) return ColumnLayout::NEVER_NULL;
    return null_offset * 8 + static_cast<uint32_t>(__builtin_ctz(null_bit));
  }
  ColumnLayout::Column layout() const { return {field->field_index, width, layout_null_bit()}; }
  /* The number of the NULL bit in a value that begins with a header of so many bytes. */
  uint32_t value_null_bit(size_t header_bytes) const {
    if (null_bit == 0) return TEAK_NEVER_ABSENT;
    return static_cast<uint32_t>(header_bytes * 8) + layout_null_bit();
  }
  RowPlan::Place place() const;
  RowPlan::Stored stored() const { return {field->field_index, field->vcol_info != nullptr}; }
};

/* The bytes of a time without a fraction. */
uint32_t whole_seconds_bytes(enum_field_types real_type) {
  switch (real_type) {
    case MYSQL_TYPE_DATETIME2:
      return 5;
    case MYSQL_TYPE_TIMESTAMP2:
      return 4;
    default:
      return 3;
  }
}

RowPlan::Place Column::place() const {
  RowPlan::Place place = {offset, width, null_offset, 0, null_bit};
  const enum_field_types type = field->real_type();
  if (width == ColumnLayout::VARIABLE) return place;
  place.extended_from = 1;
  if (is_integer(type)) {
    const bool is_unsigned = (field->flags & UNSIGNED_FLAG) != 0;
    place.extension = is_unsigned ? RowPlan::Extension::Unsigned : RowPlan::Extension::Signed;
  } else if (has_fraction_behind(type)) {
    place.extension = RowPlan::Extension::Fraction;
    place.extended_from = whole_seconds_bytes(type);
    // The fraction of a negative TIME is stored in another way.
    if (type == MYSQL_TYPE_TIME2) place.extended_to = place.extended_from;
  } else if (type == MYSQL_TYPE_NEWDECIMAL) {
    place.extension = RowPlan::Extension::Decimal;
  } else if (is_char(field) && field->charset()->mbminlen == 1) {
    place.extension = RowPlan::Extension::Padding;
    place.padding = field->charset() == &my_charset_bin ? 0 : ' ';
  }
  return place;
}

uint32_t width_of(const Field *field) {
  if ((field->flags & BLOB_FLAG) || is_varchar(field)) return ColumnLayout::VARIABLE;
  if (is_char(field) && field->pack_length() > RowPlan::CHAR_FIXED_BYTES_MAX) return ColumnLayout::VARIABLE;
  return field->pack_length_in_rec();
}

RowPlan::Variable variable(const Column &column) {
  const Field *field = column.field;
  RowPlan::Variable plan = {};
  plan.null_bit = column.null_bit;
  plan.null_offset = column.null_offset;
  plan.offset = column.offset;
  plan.column = field->field_index;
  plan.collation = field->charset();
  if (field->flags & BLOB_FLAG) {
    plan.kind = RowPlan::Kind::Blob;
    plan.length_bytes = static_cast<uint8_t>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
    plan.bytes_max = plan.length_bytes >= 4 ? UINT32_MAX : (1U << (8 * plan.length_bytes)) - 1;
  } else if (is_varchar(field)) {
    plan.kind = RowPlan::Kind::Varchar;
    plan.length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring *>(field)->length_bytes);
    plan.bytes_max = field->pack_length() - plan.length_bytes;
  } else {
    plan.kind = plan.collation->mbminlen > 1 ? RowPlan::Kind::WideChar : RowPlan::Kind::Char;
    plan.pad = plan.collation == &my_charset_bin ? 0 : ' ';
    plan.bytes_max = field->pack_length();
  }
  return plan;
}

/* Marks the column's bits in the record's NULL area: its NULL bit, and the odd bits of a BIT column. */
void claim_null_bits(const Column &column, const uchar *record, std::vector<uint8_t> *mask, bool *has_bits) {
  if (column.null_bit != 0) (*mask)[column.null_offset] |= column.null_bit;
  if (column.field->real_type() != MYSQL_TYPE_BIT) return;
  auto *bit = static_cast<const Field_bit *>(column.field);
  if (bit->bit_len == 0) return;
  *has_bits = true;
  uint32_t bits = bits_mask(bit->bit_ofs, bit->bit_len);
  size_t at = static_cast<size_t>(bit->bit_ptr - record);
  (*mask)[at] = static_cast<uint8_t>((*mask)[at] | bits);
  if (bits >> 8 != 0) (*mask)[at + 1] = static_cast<uint8_t>((*mask)[at + 1] | bits >> 8);
}

/* Extends the fraction of a time by decimal digits. */
void extend_fraction(const uint8_t *bytes, uint32_t stored, uint32_t whole, uint8_t *to, uint32_t width) {
  uint64_t fraction = 0;
  for (uint32_t i = whole; i < stored; i++) fraction = fraction << 8 | bytes[i];
  for (uint32_t i = stored; i < width; i++) fraction *= 100;
  memcpy(to, bytes, whole);
  for (uint32_t i = width; i > whole; i--, fraction >>= 8) to[i - 1] = static_cast<uint8_t>(fraction);
}

/* Puts zeros in front of a packed decimal number. The highest bit is the inverted sign; all bits of a negative number are
   inverted. */
void extend_decimal(const uint8_t *bytes, uint32_t stored, uint8_t *to, uint32_t width) {
  constexpr uint8_t SIGN = 0x80;
  const uint32_t added = width - stored;
  memset(to, (bytes[0] & SIGN) != 0 ? 0 : 0xff, added);
  memcpy(to + added, bytes, stored);
  to[added] ^= SIGN;
  to[0] ^= SIGN;
}

void put_header(RowPlan *plan) {
  plan->header_bytes = static_cast<size_t>(put_varint(plan->header, plan->schema_version) - plan->header);
}

}  // namespace

void RowPlan::Place::extend(const uint8_t *bytes, uint32_t stored, uint8_t *to) const {
  if (extension == Extension::Fraction) return extend_fraction(bytes, stored, extended_from, to, width);
  if (extension == Extension::Decimal) return extend_decimal(bytes, stored, to, width);
  memcpy(to, bytes, stored);
  const bool is_negative = extension == Extension::Signed && (bytes[stored - 1] & 0x80) != 0;
  memset(to + stored, is_negative ? 0xff : padding, width - stored);
}

std::unique_ptr<RowPlan> RowPlan::create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                         uint32_t schema_version, std::string *error) {
  auto plan = std::make_unique<RowPlan>();
  plan->schema_version = schema_version;
  put_header(plan.get());
  for (uint i = 0; primary != nullptr && i < primary->parts(); i++)
    if (primary->decodable(i)) plan->primary_columns.push_back(primary->column(i));
  if (!plan->primary_columns.empty()) plan->primary = std::move(primary);

  const uchar *record = table->record[0];
  plan->null_mask.resize(table->s->null_bytes + 1);
  std::vector<Column> columns;
  for (uint i = 0; i < table->s->fields; i++) {
    const Field *field = table->field[i];
    if (!field->stored_in_db()) continue;
    if (std::count(plan->primary_columns.begin(), plan->primary_columns.end(), i) != 0) continue;
    Column column = {field, static_cast<uint32_t>(field->ptr - record), width_of(field), 0, 0};
    if (field->null_ptr != nullptr) {
      column.null_offset = static_cast<uint32_t>(field->null_ptr - record);
      column.null_bit = field->null_bit;
    }
    if (column.null_bit != 0 && column.null_offset >= table->s->null_bytes) {
      *error =
          "column " + std::string(field->field_name.str, field->field_name.length) + " keeps its NULL bit elsewhere";
      return nullptr;
    }
    claim_null_bits(column, record, &plan->null_mask, &plan->bits_in_null_area);
    columns.push_back(column);
  }
  while (!plan->null_mask.empty() && plan->null_mask.back() == 0) plan->null_mask.pop_back();

  /* Sorted by position in the record, so that adjacent columns are copied together. */
  std::stable_sort(columns.begin(), columns.end(),
                   [](const Column &a, const Column &b) { return a.offset < b.offset; });
  plan->fixed_bytes_max = plan->header_bytes + plan->null_mask.size();
  plan->layout.null_area_bytes = static_cast<uint32_t>(plan->null_mask.size());
  plan->fixed_columns.push_back({TEAK_COLUMN_BYTES, static_cast<uint32_t>(plan->fixed_bytes_max), 0, 0});
  for (const Column &column : columns) {
    if (column.width == ColumnLayout::VARIABLE || column.null_bit != 0) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place());
    if (column.width == 0) continue;
    if (!plan->runs.empty() && plan->runs.back().offset + plan->runs.back().length == column.offset)
      plan->runs.back().length += column.width;
    else
      plan->runs.push_back({column.offset, column.width});
    plan->fixed_columns.push_back(column_in_record(column.field, column.width));
    plan->stored_columns.push_back(column.stored());
    plan->run_bytes += column.width;
  }
  plan->fixed_bytes_max += plan->run_bytes;
  for (const Column &column : columns) {
    if (column.width == ColumnLayout::VARIABLE || column.null_bit == 0) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place());
    plan->nullables.push_back({column.offset, column.width, column.null_offset, column.null_bit});
    plan->fixed_bytes_max += column.width;
    if (column.width == 0) continue;
    plan->optional_columns.push_back(
        {column_in_record(column.field, column.width), column.value_null_bit(plan->header_bytes)});
    plan->stored_columns.push_back(column.stored());
  }
  for (const Column &column : columns) {
    if (column.width != ColumnLayout::VARIABLE) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place());
    plan->places.back().variable = static_cast<uint32_t>(plan->variables.size());
    plan->variables.push_back(variable(column));
    plan->variable_columns.push_back(column.value_null_bit(plan->header_bytes));
    plan->stored_columns.push_back(column.stored());
  }
  plan->number_stored_columns(table->s->fields);
  return plan;
}

void RowPlan::number_stored_columns(uint32_t fields) {
  constexpr uint32_t BITS = 64;
  stored_bits.resize(fields / BITS + 1);
  stored_numbers.resize(fields);
  always_read.resize(stored_columns.size() / BITS + 1);
  always_read[0] = 1;  // header and NULL area
  uint16_t number = 0;
  for (const Stored &stored : stored_columns) {
    number++;
    stored_numbers[stored.column] = number;
    // CHECKSUM TABLE reads stored generated columns without requesting them.
    if (stored.generated)
      always_read[number / BITS] |= uint64_t{1} << (number % BITS);
    else
      stored_bits[stored.column / BITS] |= uint64_t{1} << (stored.column % BITS);
  }
}

}  // namespace teak
