/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See pushed_condition.h. A comparison with a constant between two numbers of a column, for example of an integer with 1.5,
   is one with the number below or above. */

#include "condition/pushed_condition.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "item_cmpfunc.h"

namespace teak {

namespace {

using Number = __int128;

constexpr Number NUMBER_MIN = INT64_MIN, NUMBER_MAX = INT64_MAX;
constexpr int DIGITS_MAX = 37;  // of a Number
constexpr size_t TEXT_CONDITIONS_MAX = 16;

bool is_constant(Item *item) { return item->const_item() && !item->is_expensive(); }

Number power_of_ten(uint digits) {
  Number power = 1;
  while (digits-- > 0) power *= 10;
  return power;
}

/* Reads a decimal as text. The number has `scale` digits behind the point. */
void read_decimal(const String &text, uint scale, Number *floor, bool *is_exact) {
  const char *from = text.ptr(), *end = from + text.length();
  const bool is_negative = from < end && *from == '-';
  if (is_negative) from++;
  Number number = 0;
  int digits = 0, behind = -1;  // behind: digits behind the point so far
  *is_exact = true;
  for (; from < end; from++) {
    if (*from == '.') {
      behind = 0;
    } else if (behind == static_cast<int>(scale)) {
      if (*from != '0') *is_exact = false;
    } else {
      if (number != 0 || *from != '0') digits++;
      if (digits <= DIGITS_MAX) number = number * 10 + (*from - '0');
      if (behind >= 0) behind++;
    }
  }
  for (int missing = static_cast<int>(scale) - std::max(behind, 0); missing > 0 && digits <= DIGITS_MAX; missing--) {
    number *= 10;
    if (number != 0) digits++;
  }
  // Larger than any number of a column.
  if (digits > DIGITS_MAX) number = power_of_ten(DIGITS_MAX);
  *floor = is_negative ? -number - (*is_exact ? 0 : 1) : number;
}

}  // namespace

bool PushedCondition::add(Item *item) {
  if (is_constant(item)) {
    const bool is_true = item->val_bool();
    add_operator(is_true ? TEAK_CONDITION_ALL : TEAK_CONDITION_ANY, 0);
    return true;
  }
  if (item->type() == Item::FUNC_ITEM) return add_function(static_cast<Item_func *>(item));
  if (item->type() != Item::COND_ITEM) return false;
  Item_cond *list = static_cast<Item_cond *>(item);
  const Item_func::Functype type = list->functype();
  if (type != Item_func::COND_AND_FUNC && type != Item_func::COND_OR_FUNC) return false;
  List_iterator_fast<Item> each(*list->argument_list());
  size_t operands = 0;
  for (Item *part; (part = each++) != nullptr; operands++)
    if (!add(part)) return false;
  add_operator(type == Item_func::COND_AND_FUNC ? TEAK_CONDITION_ALL : TEAK_CONDITION_ANY, operands);
  return true;
}

bool PushedCondition::add_parts(Item *item) {
  auto add_part = [this](Item *part) {
    const size_t conditions = conditions_.size(), numbers = numbers_.size(), texts = texts_.size();
    const size_t columns = columns_.columns().size();
    if (add(part)) {
      parts_.push_back(part);
      return;
    }
    conditions_.resize(conditions);
    numbers_.resize(numbers);
    texts_.resize(texts);
    columns_.forget_after(columns);
  };
  if (item->type() == Item::COND_ITEM && static_cast<Item_cond *>(item)->functype() == Item_func::COND_AND_FUNC) {
    List_iterator_fast<Item> each(*static_cast<Item_cond *>(item)->argument_list());
    while (Item *part = each++) add_part(part);
  } else {
    add_part(item);
  }
  if (parts_.empty()) return false;
  add_operator(TEAK_CONDITION_ALL, parts_.size());
  return true;
}

/* A comparison of one column with constants, as strings. The engine asks for it once for each string, so the server's result
   is exact, and fast enough. */
bool PushedCondition::add_of_text(Item_func *function) {
  if (texts_.size() == TEXT_CONDITIONS_MAX) return false;
  Column column = {nullptr, 0};
  for (uint i = 0; i < function->argument_count(); i++) {
    Item *argument = function->arguments()[i];
    // Others are compared as numbers or times, perhaps with a warning for each row.
    if (argument->cmp_type() != STRING_RESULT) return false;
    if (is_constant(argument)) continue;
    if (column.field != nullptr || !find(argument, &column)) return false;
  }
  if (column.field == nullptr || !(has_texts(column.field) || has_blobs(column.field)) ||
      column.field->compression_method() != nullptr)
    return false;
  add_of_column(TEAK_CONDITION_ACCEPTED, column)->operands = static_cast<uint32_t>(texts_.size());
  texts_.push_back({const_cast<Field *>(column.field), function});
  return true;
}

bool PushedCondition::accepts(size_t number, teak_slice text) const {
  const TextCondition &condition = texts_[number];
  condition.field->set_notnull();
  if (has_blobs(condition.field)) {
    auto *blob = static_cast<Field_blob *>(condition.field);
    blob->set_ptr(static_cast<uint32>(text.len), const_cast<uchar *>(text.data));
    const bool is_accepted = condition.item->val_bool();
    blob->reset();  // the bytes may not outlive the call
    return is_accepted;
  }
  condition.field->store(reinterpret_cast<const char *>(text.data), text.len, condition.field->charset());
  return condition.item->val_bool();
}

bool PushedCondition::add_function(Item_func *function) {
  switch (function->functype()) {
    case Item_func::EQ_FUNC:
    case Item_func::NE_FUNC:
    case Item_func::LT_FUNC:
    case Item_func::LE_FUNC:
    case Item_func::GT_FUNC:
    case Item_func::GE_FUNC:
      return add_of_text(function) || add_comparison(function) || add_comparison_of_columns(function);
    case Item_func::BETWEEN:
      return add_of_text(function) || add_between(function, static_cast<Item_func_between *>(function)->negated);
    case Item_func::IN_FUNC:
      return add_of_text(function) || add_in(function, static_cast<Item_func_in *>(function)->negated);
    case Item_func::LIKE_FUNC:
      return add_of_text(function);
    case Item_func::ISNULL_FUNC:
      return add_null_test(function, TEAK_CONDITION_IS_NULL);
    case Item_func::ISNOTNULL_FUNC:
      return add_null_test(function, TEAK_CONDITION_IS_NOT_NULL);
    default:
      return false;
  }
}

bool PushedCondition::find(Item *item, Column *column) {
  const std::optional<uint32_t> place = columns_.place_of(item, &column->field);
  if (!place) return false;
  column->place = *place;
  return true;
}

PushedCondition::Constant PushedCondition::bound_of(const Field *field, Item *item, Bound *bound) {
  if (!is_constant(item)) return Constant::Unsuitable;
  if (has_floats(field)) return float_bound(field, item, bound);
  const NumberKind kind = number_kind(field);
  if (kind == NumberKind::None) return Constant::Unsuitable;
  if (item->is_null()) return Constant::Null;
  if (kind == NumberKind::Time) return time_bound(const_cast<Field *>(field), item, bound);
  const uint scale = kind == NumberKind::Decimal ? field->decimals() : 0;
  if (item->cmp_type() == INT_RESULT) {
    const longlong value = item->val_int();
    if (item->null_value) return Constant::Null;
    bound->floor = item->unsigned_flag ? static_cast<Number>(static_cast<ulonglong>(value)) : value;
    bound->floor *= power_of_ten(scale);
    bound->is_exact = true;
  } else if (item->cmp_type() == DECIMAL_RESULT) {
    my_decimal buffer;
    const my_decimal *value = item->val_decimal(&buffer);
    if (item->null_value || value == nullptr) return Constant::Null;
    StringBuffer<DECIMAL_MAX_STR_LENGTH + 1> text;
    if (value->to_string(&text) == nullptr) return Constant::Unsuitable;
    read_decimal(text, scale, &bound->floor, &bound->is_exact);
  } else {
    return Constant::Unsuitable;  // compared as floats
  }
  if (kind == NumberKind::UnsignedLong) bound->floor += NUMBER_MIN;
  return Constant::Known;
}

/* The server compares floats with all numbers as DOUBLE. */
PushedCondition::Constant PushedCondition::float_bound(const Field *field, Item *item, Bound *bound) {
  // Columns with a fixed number of decimals are compared with a tolerance.
  if (field->decimals() < NOT_FIXED_DEC) return Constant::Unsuitable;
  const Item_result type = item->cmp_type();
  if (type != INT_RESULT && type != DECIMAL_RESULT && type != REAL_RESULT) return Constant::Unsuitable;
  const double value = item->val_real();
  if (item->null_value) return Constant::Null;
  if (std::isnan(value)) return Constant::Unsuitable;
  const double positive = std::fabs(value);
  int64_t number;
  memcpy(&number, &positive, sizeof(number));
  *bound = {value < 0 ? -number : number, true};
  return Constant::Known;
}

/* The number of a DATE or DATETIME is its bytes in a record. */
PushedCondition::Constant PushedCondition::time_bound(Field *field, Item *item, Bound *bound) {
  // The server compares the column with a string as a time, too.
  if (item->cmp_type() != TIME_RESULT && item->cmp_type() != STRING_RESULT) return Constant::Unsuitable;
  THD *thd = field->table->in_use;
  MYSQL_TIME wanted;
  const bool is_missing = item->get_date(thd, &wanted, Datetime::Options(TIME_CONV_NONE, thd));
  if (item->null_value && item->cmp_type() == TIME_RESULT) return Constant::Null;
  if (is_missing) return Constant::Unsuitable;
  if (wanted.time_type != MYSQL_TIMESTAMP_DATE && wanted.time_type != MYSQL_TIMESTAMP_DATETIME)
    return Constant::Unsuitable;
  MYSQL_TIME floor = wanted;
  if (field->real_type() == MYSQL_TYPE_NEWDATE) {
    floor.hour = floor.minute = floor.second = 0;
    floor.second_part = 0;
    floor.time_type = MYSQL_TIMESTAMP_DATE;
  } else {
    const auto unit = static_cast<ulong>(power_of_ten(TIME_SECOND_PART_DIGITS - field->decimals()));
    floor.second_part -= floor.second_part % unit;
  }
  MYSQL_TIME stored;
  if (field->store_time_dec(&floor, TIME_SECOND_PART_DIGITS) != 0 ||
      field->get_date(&stored, Datetime::Options(TIME_CONV_NONE, thd)) || pack_time(&stored) != pack_time(&floor))
    return Constant::Unsuitable;
  const bool is_little = field->real_type() == MYSQL_TYPE_NEWDATE;
  const uint32 bytes = field->pack_length();
  uint64_t number = 0;
  for (uint32 i = 0; i < bytes; i++) number = number << 8 | field->ptr[is_little ? bytes - 1 - i : i];
  *bound = {static_cast<Number>(number) + (bytes == sizeof(number) ? NUMBER_MIN : 0),
            pack_time(&wanted) == pack_time(&floor)};
  return Constant::Known;
}

bool PushedCondition::add_comparison(Item_func *function) {
  Item **arguments = function->arguments();
  Item_func::Functype type = function->functype();
  Column column;
  Item *constant = arguments[1];
  if (!find(arguments[0], &column)) {
    if (!find(arguments[1], &column)) return false;
    constant = arguments[0];
    type = static_cast<Item_bool_func2_with_rev *>(function)->rev_functype();
  }
  Bound bound;
  switch (bound_of(column.field, constant, &bound)) {
    case Constant::Unsuitable:
      return false;
    case Constant::Null:
      add_operator(TEAK_CONDITION_ANY, 0);
      return true;
    case Constant::Known:
      break;
  }
  switch (type) {
    case Item_func::EQ_FUNC:
      add_within(column, bound.ceiling(), bound.floor);
      return true;
    case Item_func::NE_FUNC:
      add_outside(column, bound.ceiling(), bound.floor);
      return true;
    case Item_func::LT_FUNC:
      add_within(column, NUMBER_MIN, bound.ceiling() - 1);
      return true;
    case Item_func::LE_FUNC:
      add_within(column, NUMBER_MIN, bound.floor);
      return true;
    case Item_func::GT_FUNC:
      add_within(column, bound.floor + 1, NUMBER_MAX);
      return true;
    case Item_func::GE_FUNC:
      add_within(column, bound.ceiling(), NUMBER_MAX);
      return true;
    default:
      return false;
  }
}

bool PushedCondition::add_comparison_of_columns(Item_func *function) {
  Column left, right;
  if (!find(function->arguments()[0], &left) || !find(function->arguments()[1], &right) ||
      !have_comparable_numbers(left.field, right.field))
    return false;
  teak_condition_kind kind;
  switch (function->functype()) {
    case Item_func::EQ_FUNC:
      kind = TEAK_CONDITION_EQUAL;
      break;
    case Item_func::NE_FUNC:
      kind = TEAK_CONDITION_NOT_EQUAL;
      break;
    case Item_func::GT_FUNC:
      std::swap(left, right);
      [[fallthrough]];
    case Item_func::LT_FUNC:
      kind = TEAK_CONDITION_LESS;
      break;
    case Item_func::GE_FUNC:
      std::swap(left, right);
      [[fallthrough]];
    case Item_func::LE_FUNC:
      kind = TEAK_CONDITION_LESS_OR_EQUAL;
      break;
    default:
      return false;
  }
  add_of_column(kind, left)->other = right.place;
  return true;
}

bool PushedCondition::add_between(Item_func *function, bool is_negated) {
  Item **arguments = function->arguments();
  Column column;
  Bound low, high;
  if (!find(arguments[0], &column) || bound_of(column.field, arguments[1], &low) != Constant::Known ||
      bound_of(column.field, arguments[2], &high) != Constant::Known)
    return false;
  if (is_negated)
    add_outside(column, low.ceiling(), high.floor);
  else
    add_within(column, low.ceiling(), high.floor);
  return true;
}

bool PushedCondition::add_in(Item_func *function, bool is_negated) {
  Item **arguments = function->arguments();
  Column column;
  if (!find(arguments[0], &column)) return false;
  std::vector<int64_t> numbers;
  for (uint i = 1; i < function->argument_count(); i++) {
    Bound bound;
    // Strings among them may decide how the server compares.
    if (number_kind(column.field) == NumberKind::Time && arguments[i]->cmp_type() != TIME_RESULT) return false;
    const Constant constant = bound_of(column.field, arguments[i], &bound);
    if (constant == Constant::Unsuitable || (constant == Constant::Null && is_negated)) return false;
    if (constant == Constant::Null || !bound.is_exact || bound.floor < NUMBER_MIN || bound.floor > NUMBER_MAX) continue;
    numbers.push_back(static_cast<int64_t>(bound.floor));
  }
  std::sort(numbers.begin(), numbers.end());
  const std::vector<int64_t> &kept = numbers_.emplace_back(std::move(numbers));
  teak_condition *condition = add_of_column(is_negated ? TEAK_CONDITION_NOT_IN : TEAK_CONDITION_IN, column);
  condition->numbers = kept.data();
  condition->number_count = kept.size();
  return true;
}

bool PushedCondition::add_null_test(Item_func *function, teak_condition_kind kind) {
  Column column;
  // The server finds some values of NOT NULL columns to be NULL: the date 0 of ODBC.
  if (!find(function->arguments()[0], &column) || !column.field->real_maybe_null()) return false;
  add_of_column(kind, column);
  return true;
}

void PushedCondition::add_within(const Column &column, Number min, Number max) {
  if (min > max || min > NUMBER_MAX || max < NUMBER_MIN) return add_operator(TEAK_CONDITION_ANY, 0);
  add_range(TEAK_CONDITION_WITHIN, column, min, max);
}

void PushedCondition::add_outside(const Column &column, Number min, Number max) {
  if (min > max || min > NUMBER_MAX || max < NUMBER_MIN) {
    add_of_column(TEAK_CONDITION_IS_NOT_NULL, column);
    return;
  }
  add_range(TEAK_CONDITION_OUTSIDE, column, min, max);
}

void PushedCondition::add_range(teak_condition_kind kind, const Column &column, Number min, Number max) {
  teak_condition *condition = add_of_column(kind, column);
  condition->min = static_cast<int64_t>(std::max(min, NUMBER_MIN));
  condition->max = static_cast<int64_t>(std::min(max, NUMBER_MAX));
}

teak_condition *PushedCondition::add_of_column(teak_condition_kind kind, const Column &column) {
  teak_condition condition = {};
  condition.kind = kind;
  condition.column = column.place;
  conditions_.push_back(condition);
  return &conditions_.back();
}

void PushedCondition::add_operator(teak_condition_kind kind, size_t operands) {
  teak_condition condition = {};
  condition.kind = kind;
  condition.operands = static_cast<uint32_t>(operands);
  conditions_.push_back(condition);
}

}  // namespace teak
