/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_inherit.h. */

#include "format/row_inherit.h"

#include <algorithm>

#include "format/row_plan.h"
#include "format/row_values.h"

namespace teak {

namespace {

RowHistory::Fill fill_of(const RowPlan &plan, size_t number, const uchar *record) {
  const RowPlan::Place &place = plan.places[number];
  RowHistory::Fill fill;
  fill.column = plan.layout.columns[number].column;
  fill.null = (record[place.null_offset] & place.null_bit) != 0;
  if (fill.null) return fill;
  Slice bytes = {record + place.offset, place.width};
  if (place.width == ColumnLayout::VARIABLE) bytes = slice_of(plan.variables[place.variable], record);
  fill.bytes.assign(bytes.bytes, bytes.bytes + bytes.length);
  return fill;
}

/* Whether rows with the old type must be read as such from now on. */
bool replaces(const StoredType &type, const StoredType &old_type) {
  return type.kind != old_type.kind || (type.kind == StoredType::Kind::Decimal && type.parameter != old_type.parameter);
}

constexpr const char *OTHER_FORM = "the storage format of a column changes";

/* Converts the values of a column in earlier rows, and notes the type with which earlier rows have the column, if this is
   another one now. Returns nullptr, or the reason why the values cannot be converted. */
const char *inherit_column(const RowPlan &plan, size_t number, const RowPlan &old_plan, size_t old_number,
                           RowHistory *history) {
  const RowPlan::Place &place = plan.places[number];
  const StoredType old_type = old_plan.places[old_number].type;
  const uint32_t column = plan.layout.columns[number].column;
  const ColumnConversion conversion = conversion_of(old_plan, old_number, plan, number);
  if (!conversion.is_possible()) return OTHER_FORM;
  for (RowHistory::Fill &fill : history->fills)
    if (fill.column == column && !fill.null) conversion.convert(place, &fill.bytes);
  for (RowHistory::Version &version : history->versions)
    for (ColumnLayout::Column &stored : version.layout.columns) {
      if (stored.column != column) continue;
      if (stored.type.kind == StoredType::Kind::Current && replaces(place.type, old_type)) {
        if (!old_type.is_storable()) return OTHER_FORM;
        stored.type = old_type;
      }
      if (!ColumnConversion::between(stored.type, stored.width, plan, place).is_possible())
        return "earlier row versions have a type that is converted by a rebuild";
    }
  return nullptr;
}

}  // namespace

ColumnConversion conversion_of(const RowPlan &old_plan, size_t old_number, const RowPlan &plan, size_t number) {
  const RowPlan::Place &old_place = old_plan.places[old_number], &place = plan.places[number];
  const RowPlan::Variable *old_variable = old_plan.variable_of(old_place), *variable = plan.variable_of(place);
  if (old_variable != nullptr && (variable == nullptr || variable->bytes_max < old_variable->bytes_max)) return {};
  return ColumnConversion::between(old_place.type, old_place.width, plan, place);
}

const char *inherit_history(const RowPlan &plan, const RowPlan &old_plan, const std::vector<uint32_t> &old_columns,
                            const uchar *record, RowHistory *history) {
  if (plan.bits_in_null_area || old_plan.bits_in_null_area) return "BIT columns have bits among the NULL bits";
  const auto old_of = [&](uint32_t column) {
    return column < old_columns.size() ? old_columns[column] : ColumnLayout::DROPPED;
  };
  const auto new_of = [&](uint32_t old_column) {
    auto at = std::find(old_columns.begin(), old_columns.end(), old_column);
    return at == old_columns.end() ? ColumnLayout::DROPPED : static_cast<uint32_t>(at - old_columns.begin());
  };
  if (plan.primary_columns.size() != old_plan.primary_columns.size()) return "rows are stored in primary key order";
  for (size_t i = 0; i < plan.primary_columns.size(); i++)
    if (old_of(plan.primary_columns[i]) != old_plan.primary_columns[i]) return "rows are stored in primary key order";

  for (RowHistory::Version &version : history->versions)
    for (ColumnLayout::Column &column : version.layout.columns)
      if (column.column != ColumnLayout::DROPPED) column.column = new_of(column.column);
  for (RowHistory::Fill &fill : history->fills) fill.column = new_of(fill.column);
  history->fills.erase(
      std::remove_if(history->fills.begin(), history->fills.end(),
                     [](const RowHistory::Fill &fill) { return fill.column == ColumnLayout::DROPPED; }),
      history->fills.end());

  if (plan.schema_version != old_plan.schema_version) {
    if (history->versions.size() == RowHistory::VERSIONS_MAX)
      return "the table has 255 earlier row versions already; a rebuild removes them";
    RowHistory::Version version = {old_plan.schema_version, old_plan.layout};
    for (ColumnLayout::Column &column : version.layout.columns) column.column = new_of(column.column);
    history->versions.push_back(std::move(version));
  }

  for (size_t i = 0; i < plan.layout.columns.size(); i++) {
    const uint32_t old_column = old_of(plan.layout.columns[i].column);
    if (old_column == ColumnLayout::DROPPED) {
      history->fills.push_back(fill_of(plan, i, record));
      continue;
    }
    size_t old_number = 0;
    while (old_number < old_plan.layout.columns.size() && old_plan.layout.columns[old_number].column != old_column)
      old_number++;
    if (old_number == old_plan.layout.columns.size()) return OTHER_FORM;
    if (plan.places[i].null_bit == 0 && old_plan.places[old_number].null_bit != 0)
      return "existing rows must be checked for NULL";
    if (const char *reason = inherit_column(plan, i, old_plan, old_number, history)) return reason;
  }
  std::sort(history->fills.begin(), history->fills.end(),
            [](const RowHistory::Fill &a, const RowHistory::Fill &b) { return a.column < b.column; });
  return nullptr;
}

}  // namespace teak
