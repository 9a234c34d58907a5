/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */
/* See pushed_expression.h. The server calculates with BIGINT, and fails if a result does not fit, or with decimals of up to
   65 digits. So integers are pushed only if no result can be too large, and decimals only if all have fewer digits. */

#include "pushdown/pushed_expression.h"

#include <algorithm>

#include "item_func.h"

namespace teak {

namespace {

constexpr uint DIGITS_MAX = 60;  // of a decimal
constexpr uint SCALE_MAX = 30;
constexpr uint STEP_DIGITS_MAX = 18;  // of a constant

int64_t power_of_ten(uint digits) {
  int64_t power = 1;
  while (digits-- > 0) power *= 10;
  return power;
}

uint digits_of(__int128 number) {
  uint digits = 1;
  for (number = number < 0 ? -number : number; number >= 10; number /= 10) digits++;
  return digits;
}

bool fits(__int128 min, __int128 max) { return min >= INT64_MIN && max <= INT64_MAX; }

}  // namespace

bool PushedExpression::set(Item *item) {
  steps_.clear();
  Operand operand = {};
  if (!add(item, &operand)) return false;
  scale_ = operand.scale;
  return true;
}

bool PushedExpression::add(Item *item, Operand *operand) {
  const Field *field;
  if (const std::optional<uint32_t> place = columns_->place_of(item, &field); place.has_value())
    return add_column(field, *place, operand);
  if (item->const_item()) return !item->is_expensive() && add_constant(item, operand);
  return item->type() == Item::FUNC_ITEM && add_function(static_cast<Item_func *>(item), operand);
}

bool PushedExpression::add_column(const Field *field, uint32_t place, Operand *operand) {
  const NumberKind kind = number_kind(field);
  operand->is_unsigned = (field->flags & UNSIGNED_FLAG) != 0;
  if (kind == NumberKind::Decimal) {
    operand->is_decimal = true;
    operand->scale = field->decimals();
    operand->digits = static_cast<const Field_new_decimal *>(field)->precision;
  } else if (kind == NumberKind::Integer || kind == NumberKind::UnsignedLong) {
    const uint bits = field->pack_length() * 8;
    operand->max = (static_cast<Number>(1) << (operand->is_unsigned ? bits : bits - 1)) - 1;
    operand->min = operand->is_unsigned ? 0 : -operand->max - 1;
    operand->digits = digits_of(operand->max);
  } else {
    return false;
  }
  add_step(TEAK_STEP_COLUMN, place);
  return true;
}

bool PushedExpression::add_constant(Item *item, Operand *operand) {
  if (item->cmp_type() != INT_RESULT && item->cmp_type() != DECIMAL_RESULT) return false;
  my_decimal buffer;
  const my_decimal *value = item->val_decimal(&buffer);
  if (value == nullptr || item->null_value) return false;
  StringBuffer<DECIMAL_MAX_STR_LENGTH + 1> text;
  if (value->to_string(&text) == nullptr) return false;
  int64_t number = 0;
  uint digits = 0;
  bool is_behind = false, is_negative = false;
  for (uint32 i = 0; i < text.length(); i++) {
    const char c = text.ptr()[i];
    if (c == '-') {
      is_negative = true;
    } else if (c == '.') {
      is_behind = true;
    } else {
      if (++digits > STEP_DIGITS_MAX) return false;
      number = number * 10 + (c - '0');
      if (is_behind) operand->scale++;
    }
  }
  if (is_negative) number = -number;
  operand->is_decimal = item->cmp_type() == DECIMAL_RESULT;
  if (operand->is_decimal ? operand->scale != item->decimals : operand->scale != 0) return false;
  operand->is_unsigned = item->unsigned_flag;
  operand->min = operand->max = number;
  operand->digits = digits;
  add_step(TEAK_STEP_NUMBER, 0, number);
  return true;
}

bool PushedExpression::add_function(Item_func *function, Operand *operand) {
  if (function->result_type() != INT_RESULT && function->result_type() != DECIMAL_RESULT) return false;
  const char *name = function->func_name();
  Item **arguments = function->arguments();
  if (name[0] == '\0' || name[1] != '\0') return false;
  if (name[0] == '-' && function->argument_count() == 1) {
    if (!add(arguments[0], operand) || operand->is_unsigned || !fits(-operand->max, -operand->min)) return false;
    std::swap(operand->min, operand->max);
    operand->min = -operand->min;
    operand->max = -operand->max;
    add_step(TEAK_STEP_NEGATE);
    return (function->result_type() == DECIMAL_RESULT) == operand->is_decimal;
  }
  if (function->argument_count() != 2) return false;
  Operand first = {}, second = {};
  if (!add(arguments[0], &first)) return false;
  const size_t second_start = steps_.size();
  if (!add(arguments[1], &second) || !combine(name[0], second_start, first, second, operand)) return false;
  return (function->result_type() == DECIMAL_RESULT) == operand->is_decimal;
}

/* Adds the step for two operands. The steps of the second one begin at `second_start`. */
bool PushedExpression::combine(char what, size_t second_start, const Operand &first, Operand second, Operand *operand) {
  operand->is_decimal = first.is_decimal || second.is_decimal;
  operand->is_unsigned = first.is_unsigned || second.is_unsigned;
  // Whether a result below 0 is an error depends on the SQL mode.
  if (what == '-' && operand->is_unsigned) return false;
  if (!fits(first.min, first.max) || !fits(second.min, second.max)) return false;
  if (what == '*') {
    operand->scale = first.scale + second.scale;
    operand->digits = first.digits + second.digits;
    const Number products[] = {first.min * second.min, first.min * second.max, first.max * second.min,
                               first.max * second.max};
    operand->min = *std::min_element(std::begin(products), std::end(products));
    operand->max = *std::max_element(std::begin(products), std::end(products));
    add_step(TEAK_STEP_MULTIPLY);
  } else if (what == '+' || what == '-') {
    operand->scale = std::max(first.scale, second.scale);
    operand->digits =
        std::max(first.digits + operand->scale - first.scale, second.digits + operand->scale - second.scale) + 1;
    if (operand->scale - std::min(first.scale, second.scale) > STEP_DIGITS_MAX) return false;
    // The second operand first: its steps are the last ones.
    scale_up(operand->scale - second.scale, steps_.size());
    scale_up(operand->scale - first.scale, second_start);
    operand->min = what == '+' ? first.min + second.min : first.min - second.max;
    operand->max = what == '+' ? first.max + second.max : first.max - second.min;
    add_step(what == '+' ? TEAK_STEP_ADD : TEAK_STEP_SUBTRACT);
  } else {
    return false;
  }
  if (operand->is_decimal) return operand->digits <= DIGITS_MAX && operand->scale <= SCALE_MAX;
  return fits(operand->min, operand->max) && !(operand->is_unsigned && operand->min < 0);
}

/* Multiplies the operand whose steps end at `place` by a power of ten. */
void PushedExpression::scale_up(uint digits, size_t place) {
  if (digits == 0) return;
  const teak_step steps[] = {{TEAK_STEP_NUMBER, 0, power_of_ten(digits)}, {TEAK_STEP_MULTIPLY, 0, 0}};
  steps_.insert(steps_.begin() + static_cast<ptrdiff_t>(place), std::begin(steps), std::end(steps));
}

}  // namespace teak
