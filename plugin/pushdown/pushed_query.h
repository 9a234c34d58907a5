/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */
/* PushedQuery: a query with aggregates of a table, or of partitions of it, as the engine computes it. */

#ifndef TEAK_PUSHDOWN_PUSHED_QUERY_H
#define TEAK_PUSHDOWN_PUSHED_QUERY_H

#include "base/server_version.h"

#include <deque>
#include <memory>
#include <vector>

#include "base/core.h"
#include "format/string_codec.h"
#include "condition/pushed_columns.h"
#include "condition/pushed_condition.h"
#include "table/open_table.h"
#include "pushdown/pushed_expression.h"

#include "group_by_handler.h"
#include "item_sum.h"

namespace teak {

class PushedQuery {
 public:
  PushedQuery(TABLE *table, const RowCodec &rows, const KeyCodec &primary)
      : table_(table), columns_(table, rows, primary) {}
  PushedQuery(const PushedQuery &) = delete;
  PushedQuery &operator=(const PushedQuery &) = delete;

  /* A column of the result, in the order of the fields of the server's temporary table. */
  struct Result {
    enum class Kind : uint8_t { Key, Count, Sum, Average, FloatSum, FloatAverage, Extreme };
    Kind kind;
    uint32_t number;   // of the key or the aggregate
    Field *field;      // of the table: Key, Extreme
    uint scale;        // Sum, Average
    uint added_scale;  // Average: digits that the division adds
  };
  /* A column by which rows are grouped. */
  struct Key {
    Field *field;
    uint32_t place;
    std::shared_ptr<const StringCodec> weights;  // nullptr: not weighed
  };

  /* False: the server must compute the query. `has_all_items`: the temporary table has a field for each item. */
  bool set(const Query &query, bool has_all_items);
  /* Whether it has a MIN or MAX. */
  bool has_extremes() const;
  /* Whether results depend on the order of the rows: sums of floats, and values that are equal but not the same. */
  bool depends_on_order() const;

  TABLE *table() const { return table_; }
  const std::vector<Result> &results() const { return results_; }
  const std::vector<Key> &keys() const { return keys_; }
  const PushedCondition &condition() const { return condition_; }

  teak_status open(teak_transaction *transaction, const std::vector<OpenTable *> &tables, size_t memory_max,
                   const teak_aggregate_calls *calls, teak_aggregate **aggregate) const;

 private:
  bool add_key(Item *item);
  bool add_result(Item *item);
  bool add_aggregate(Item_sum *item);
  bool add_count(Item_sum *item, teak_aggregate_item *aggregate);
  bool add_float_sum(Item_sum *item, teak_aggregate_item *aggregate, Result *result);
  bool add_sum(Item_sum *item, teak_aggregate_item *aggregate, Result *result);
  bool add_extreme(Item_sum *item, teak_aggregate_item *aggregate, Result *result);

  TABLE *table_;
  PushedColumns columns_;
  PushedCondition condition_{&columns_};
  std::vector<Key> keys_;
  std::vector<teak_aggregate_item> aggregates_;
  std::deque<PushedExpression> expressions_;  // aggregates point to them
  std::vector<Result> results_;
};

}  // namespace teak

#endif
