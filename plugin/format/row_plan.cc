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
  RowPlan::Place place;

  uint32_t layout_null_bit() const {
    if (place.null_bit == 0) return ColumnLayout::NEVER_NULL;
    return place.null_offset * 8 + static_cast<uint32_t>(__builtin_ctz(place.null_bit));
  }
  ColumnLayout::Column layout() const { return {field->field_index, place.width, layout_null_bit(), {}}; }
  /* The number of the NULL bit in a value that begins with a header of so many bytes. */
  uint32_t value_null_bit(size_t header_bytes) const {
    if (place.null_bit == 0) return TEAK_NEVER_ABSENT;
    return static_cast<uint32_t>(header_bytes * 8) + layout_null_bit();
  }
  RowPlan::Stored stored() const { return {field->field_index, field->vcol_info != nullptr}; }
};

StoredType type_of(const Field *field) {
  const enum_field_types type = field->real_type();
  if (is_integer(type))
    return {(field->flags & UNSIGNED_FLAG) != 0 ? StoredType::Kind::Unsigned : StoredType::Kind::Signed, 0};
  switch (type) {
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
      return {StoredType::Kind::Unsigned, 0};
    case MYSQL_TYPE_DATETIME2:
      return {StoredType::Kind::DateTime, 5};
    case MYSQL_TYPE_TIMESTAMP2:
      return {StoredType::Kind::DateTime, 4};
    case MYSQL_TYPE_TIME2:
      return {StoredType::Kind::Time, 3};
    case MYSQL_TYPE_NEWDECIMAL:
      return {StoredType::Kind::Decimal, field->decimals()};
    default:
      break;
  }
  // A column of no bytes has no types to distinguish.
  if (!is_char(field) || field->pack_length() == 0) return {StoredType::Kind::Plain, 0};
  if (field->charset() == &my_charset_bin) return {StoredType::Kind::Binary, field->pack_length()};
  return {StoredType::Kind::Char, 0};
}

uint32_t width_of(const Field *field) {
  if ((field->flags & BLOB_FLAG) || is_varchar(field)) return ColumnLayout::VARIABLE;
  if (is_char(field) && field->pack_length() > RowPlan::CHAR_FIXED_BYTES_MAX) return ColumnLayout::VARIABLE;
  return field->pack_length_in_rec();
}

/* Marks the column's bits in the record's NULL area: its NULL bit, and the odd bits of a BIT column. */
void claim_null_bits(const Column &column, const uchar *record, std::vector<uint8_t> *mask, bool *has_bits) {
  if (column.place.null_bit != 0) (*mask)[column.place.null_offset] |= column.place.null_bit;
  if (column.field->real_type() != MYSQL_TYPE_BIT) return;
  auto *bit = static_cast<const Field_bit *>(column.field);
  if (bit->bit_len == 0) return;
  *has_bits = true;
  uint32_t bits = bits_mask(bit->bit_ofs, bit->bit_len);
  size_t at = static_cast<size_t>(bit->bit_ptr - record);
  (*mask)[at] = static_cast<uint8_t>((*mask)[at] | bits);
  if (bits >> 8 != 0) (*mask)[at + 1] = static_cast<uint8_t>((*mask)[at + 1] | bits >> 8);
}

void put_header(RowPlan *plan) {
  plan->header_bytes = static_cast<size_t>(put_varint(plan->header, plan->schema_version) - plan->header);
}

}  // namespace

RowPlan::Place RowPlan::place_of(const Field *field, const uchar *record) {
  Place place = {static_cast<uint32_t>(field->ptr - record), width_of(field), 0, 0, 0};
  if (field->null_ptr != nullptr) {
    place.null_offset = static_cast<uint32_t>(field->null_ptr - record);
    place.null_bit = field->null_bit;
  }
  place.type = type_of(field);
  place.collation = field->charset();
  return place;
}

RowPlan::Variable RowPlan::variable_at(const Field *field, const Place &place) {
  Variable plan = {};
  plan.null_bit = place.null_bit;
  plan.null_offset = place.null_offset;
  plan.offset = place.offset;
  plan.column = field->field_index;
  plan.collation = field->charset();
  if (field->flags & BLOB_FLAG) {
    plan.kind = Kind::Blob;
    plan.length_bytes = static_cast<uint8_t>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
    plan.bytes_max = plan.length_bytes >= 4 ? UINT32_MAX : (1U << (8 * plan.length_bytes)) - 1;
  } else if (is_varchar(field)) {
    plan.kind = Kind::Varchar;
    plan.length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring *>(field)->length_bytes);
    plan.bytes_max = field->pack_length() - plan.length_bytes;
  } else {
    plan.kind = plan.collation->mbminlen > 1 ? Kind::WideChar : Kind::Char;
    plan.pad = plan.collation == &my_charset_bin ? 0 : ' ';
    plan.bytes_max = field->pack_length();
  }
  return plan;
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
    const Column column = {field, place_of(field, record)};
    if (column.place.null_bit != 0 && column.place.null_offset >= table->s->null_bytes) {
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
                   [](const Column &a, const Column &b) { return a.place.offset < b.place.offset; });
  plan->fixed_bytes_max = plan->header_bytes + plan->null_mask.size();
  plan->layout.null_area_bytes = static_cast<uint32_t>(plan->null_mask.size());
  plan->fixed_columns.push_back({TEAK_COLUMN_BYTES, static_cast<uint32_t>(plan->fixed_bytes_max), 0, 0});
  for (const Column &column : columns) {
    if (column.place.width == ColumnLayout::VARIABLE || column.place.null_bit != 0) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place);
    if (column.place.width == 0) continue;
    if (!plan->runs.empty() && plan->runs.back().offset + plan->runs.back().length == column.place.offset)
      plan->runs.back().length += column.place.width;
    else
      plan->runs.push_back({column.place.offset, column.place.width});
    plan->fixed_columns.push_back(column_in_record(column.field, column.place.width));
    plan->stored_columns.push_back(column.stored());
    plan->run_bytes += column.place.width;
  }
  plan->fixed_bytes_max += plan->run_bytes;
  for (const Column &column : columns) {
    if (column.place.width == ColumnLayout::VARIABLE || column.place.null_bit == 0) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place);
    plan->nullables.push_back(
        {column.place.offset, column.place.width, column.place.null_offset, column.place.null_bit});
    plan->fixed_bytes_max += column.place.width;
    if (column.place.width == 0) continue;
    plan->optional_columns.push_back(
        {column_in_record(column.field, column.place.width), column.value_null_bit(plan->header_bytes)});
    plan->stored_columns.push_back(column.stored());
  }
  for (const Column &column : columns) {
    if (column.place.width != ColumnLayout::VARIABLE) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place);
    plan->places.back().variable = static_cast<uint32_t>(plan->variables.size());
    plan->variables.push_back(variable_at(column.field, column.place));
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
