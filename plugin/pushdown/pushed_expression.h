/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */
/* PushedExpression: the argument of a SUM as the engine evaluates it (teak_step). */

#ifndef TEAK_PUSHDOWN_PUSHED_EXPRESSION_H
#define TEAK_PUSHDOWN_PUSHED_EXPRESSION_H

#include "base/server_version.h"

#include <vector>

#include "base/core.h"
#include "condition/pushed_columns.h"

namespace teak {

class PushedExpression {
 public:
  explicit PushedExpression(PushedColumns *columns) : columns_(columns) {}

  /* Sets the expression. False: the engine cannot evaluate it exactly as the server. */
  bool set(Item *item);

  const std::vector<teak_step> &steps() const { return steps_; }
  /* Digits of its integers that are behind the decimal point. */
  uint scale() const { return scale_; }

 private:
  using Number = __int128;
  /* What an operand is: an integer of the server, or a decimal. */
  struct Operand {
    bool is_decimal;
    bool is_unsigned;
    uint scale;
    uint digits;      // of a decimal, at most
    Number min, max;  // of an integer
  };

  bool add(Item *item, Operand *operand);
  bool add_column(const Field *field, uint32_t place, Operand *operand);
  bool add_constant(Item *item, Operand *operand);
  bool add_function(Item_func *function, Operand *operand);
  bool combine(char what, size_t second_start, const Operand &first, Operand second, Operand *operand);
  void scale_up(uint digits, size_t place);
  void add_step(teak_step_kind kind, uint32_t column = 0, int64_t number = 0) {
    steps_.push_back({kind, column, number});
  }

  PushedColumns *columns_;
  std::vector<teak_step> steps_;
  uint scale_ = 0;
};

}  // namespace teak

#endif
