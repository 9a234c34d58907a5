/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* PushedCondition: a condition of WHERE as the engine evaluates it (teak_condition). */

#ifndef TEAK_PUSHDOWN_PUSHED_CONDITION_H
#define TEAK_PUSHDOWN_PUSHED_CONDITION_H

#include "base/server_version.h"

#include <deque>
#include <vector>

#include "base/core.h"
#include "condition/pushed_columns.h"

namespace teak {

class PushedCondition {
 public:
  explicit PushedCondition(PushedColumns *columns) : columns_(*columns) {}
  PushedCondition(const PushedCondition &) = delete;
  PushedCondition &operator=(const PushedCondition &) = delete;

  /* Adds a condition; its constants are evaluated now. False: the engine cannot evaluate it exactly as the server. */
  bool add(Item *item);

  /* Adds those parts of a condition that the engine can evaluate; a row that does not match them does not match the
     condition. False: there are none. */
  bool add_parts(Item *item);

  /* What add_parts() has added. */
  const std::vector<Item *> &parts() const { return parts_; }

  /* In postfix order. */
  const std::vector<teak_condition> &conditions() const { return conditions_; }

  /* Whether the condition of a string with this number (TEAK_CONDITION_ACCEPTED) is true for a string of its column. Changes the
     column in the row buffer. */
  bool accepts(size_t number, teak_slice text) const;

 private:
  using Number = __int128;
  /* A constant in the numbers of a column. */
  struct Bound {
    Number floor;   // the largest number that is not larger
    bool is_exact;  // the constant is this number

    Number ceiling() const { return is_exact ? floor : floor + 1; }
  };
  enum class Constant { Known, Null, Unsuitable };
  struct Column {
    const Field *field;
    uint32_t place;
  };
  /* A condition of one column with strings, which the server evaluates. */
  struct TextCondition {
    Field *field;
    Item *item;
  };

  bool add_function(Item_func *function);
  bool add_of_text(Item_func *function);
  bool add_comparison(Item_func *function);
  bool add_comparison_of_columns(Item_func *function);
  bool add_between(Item_func *function, bool is_negated);
  bool add_in(Item_func *function, bool is_negated);
  bool add_null_test(Item_func *function, teak_condition_kind kind);
  bool find(Item *item, Column *column);
  static Constant bound_of(const Field *field, Item *item, Bound *bound);
  static Constant float_bound(const Field *field, Item *item, Bound *bound);
  static Constant time_bound(Field *field, Item *item, Bound *bound);

  void add_within(const Column &column, Number min, Number max);
  void add_outside(const Column &column, Number min, Number max);
  void add_range(teak_condition_kind kind, const Column &column, Number min, Number max);
  /* The condition is valid until the next one is added. */
  teak_condition *add_of_column(teak_condition_kind kind, const Column &column);
  void add_operator(teak_condition_kind kind, size_t operands);

  PushedColumns &columns_;
  std::vector<teak_condition> conditions_;
  std::deque<std::vector<int64_t>> numbers_;  // of IN; conditions point to them
  std::vector<TextCondition> texts_;
  std::vector<Item *> parts_;
};

}  // namespace teak

#endif
