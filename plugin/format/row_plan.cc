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
  RowPlan::Place place() const { return {offset, width, null_offset, 0, null_bit}; }
};

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

void put_header(RowPlan *plan) {
  plan->header_bytes = static_cast<size_t>(put_varint(plan->header, plan->schema_version) - plan->header);
}

}  // namespace

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
  for (const Column &column : columns) {
    if (column.width == ColumnLayout::VARIABLE || column.null_bit != 0) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place());
    if (column.width == 0) continue;
    if (!plan->runs.empty() && plan->runs.back().offset + plan->runs.back().length == column.offset)
      plan->runs.back().length += column.width;
    else
      plan->runs.push_back({column.offset, column.width});
    plan->run_bytes += column.width;
  }
  plan->fixed_bytes_max += plan->run_bytes;
  for (const Column &column : columns) {
    if (column.width == ColumnLayout::VARIABLE || column.null_bit == 0) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place());
    plan->nullables.push_back({column.offset, column.width, column.null_offset, column.null_bit});
    plan->fixed_bytes_max += column.width;
  }
  for (const Column &column : columns) {
    if (column.width != ColumnLayout::VARIABLE) continue;
    plan->layout.columns.push_back(column.layout());
    plan->places.push_back(column.place());
    plan->places.back().variable = static_cast<uint32_t>(plan->variables.size());
    plan->variables.push_back(variable(column));
  }
  return plan;
}

}  // namespace teak
