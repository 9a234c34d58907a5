/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See pushed_columns.h. */

#include "condition/pushed_columns.h"

#include <algorithm>

#include "format/column_kind.h"
#include "format/field_types.h"

namespace teak {

namespace {

constexpr uint32_t GROUPED_BYTES_MAX = 1024;  // the server sorts longer strings by their first bytes

}  // namespace

NumberKind number_kind(const Field *field) {
  switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
      return NumberKind::Integer;
    case MYSQL_TYPE_LONGLONG:
      return (field->flags & UNSIGNED_FLAG) != 0 ? NumberKind::UnsignedLong : NumberKind::Integer;
    case MYSQL_TYPE_NEWDECIMAL:
      return column_in_record(field, field->pack_length()).kind == TEAK_COLUMN_DECIMAL ? NumberKind::Decimal
                                                                                       : NumberKind::None;
    case MYSQL_TYPE_NEWDATE:
    case MYSQL_TYPE_DATETIME2:
      return NumberKind::Time;
    default:
      return NumberKind::None;
  }
}

bool have_comparable_numbers(const Field *one, const Field *other) {
  const NumberKind kind = number_kind(one);
  if (kind != number_kind(other)) return false;
  switch (kind) {
    case NumberKind::None:
      return false;
    case NumberKind::Integer:
    case NumberKind::UnsignedLong:
      return true;
    case NumberKind::Decimal:
      return one->decimals() == other->decimals();
    case NumberKind::Time:
      return one->real_type() == other->real_type() && one->decimals() == other->decimals();
  }
  return false;
}

bool has_floats(const Field *field) {
  return field->real_type() == MYSQL_TYPE_FLOAT || field->real_type() == MYSQL_TYPE_DOUBLE;
}

bool has_texts(const Field *field) { return is_char(field) || field->real_type() == MYSQL_TYPE_VARCHAR; }

bool has_blobs(const Field *field) { return field->real_type() == MYSQL_TYPE_BLOB; }

bool can_be_grouped(const Field *field) {
  // Equal values may be stored as different bytes.
  if (field->compression_method() != nullptr) return false;
  if (number_kind(field) != NumberKind::None) return true;
  switch (field->real_type()) {
    case MYSQL_TYPE_YEAR:
    case MYSQL_TYPE_TIME2:
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
      return true;
    default:
      return has_texts(field) && field->field_length <= GROUPED_BYTES_MAX;
  }
}

const Field *field_of(Item *item, const TABLE *table) {
  Item *real = item->real_item();
  if (real->type() != Item::FIELD_ITEM) return nullptr;
  const Field *field = static_cast<Item_field *>(real)->field;
  return field->table == table ? field : nullptr;
}

std::optional<teak_read_column> PushedColumns::find(const Field *field) const {
  teak_read_column column = {};
  column.number = rows_.number_of(field->field_index);
  if (column.number != 0) return column;
  const std::optional<size_t> in_key = primary_.integer_column(field->field_index);
  if (!in_key) return std::nullopt;
  column.is_in_key = true;
  column.number = *in_key;
  column.value = column_in_record(field, field->pack_length());
  if (column.value.kind == TEAK_COLUMN_BYTES || column.value.kind == TEAK_COLUMN_FLOAT) return std::nullopt;
  return column;
}

std::optional<uint32_t> PushedColumns::place_of(const Field *field) {
  const std::optional<teak_read_column> column = find(field);
  if (!column) return std::nullopt;
  auto found = std::find_if(columns_.begin(), columns_.end(), [&column](const teak_read_column &other) {
    return other.is_in_key == column->is_in_key && other.number == column->number;
  });
  const auto place = static_cast<uint32_t>(found - columns_.begin());
  if (found == columns_.end()) columns_.push_back(*column);
  return place;
}

std::optional<uint32_t> PushedColumns::place_of(Item *item, const Field **field) {
  *field = field_of(item, table_);
  if (*field == nullptr) return std::nullopt;
  return place_of(*field);
}

}  // namespace teak
