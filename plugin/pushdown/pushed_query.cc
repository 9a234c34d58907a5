/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */
/* See pushed_query.h. */

#include "pushdown/pushed_query.h"

#include "format/field_types.h"

namespace teak {

bool PushedQuery::set(const Query &query, bool has_all_items) {
  for (const ORDER *order = query.group_by; order != nullptr; order = order->next)
    if (!add_key(*order->item)) return false;
  if (query.where != nullptr && !condition_.add(query.where)) return false;
  List_iterator_fast<Item> each(*query.select);
  while (Item *item = each++) {
    // The server computes these from the results. See Create_tmp_table::add_fields() in the server.
    if (item->with_sum_func() && item->type() != Item::SUM_FUNC_ITEM && !has_all_items) continue;
    if (item->const_item() && !has_all_items) {
      // A number of rows that the server has got from records(). It would clear it with the other aggregates.
      if (item->type() == Item::SUM_FUNC_ITEM) return false;
      // Hidden ones, which precede the others, are stored.
      if (results_.size() < static_cast<size_t>(query.n_aux)) return false;
      continue;
    }
    if (!add_result(item)) return false;
  }
  // Without any aggregate, the query may be one for distinct rows.
  return !aggregates_.empty();
}

bool PushedQuery::has_extremes() const {
  for (const Result &result : results_)
    if (result.kind == Result::Kind::Extreme) return true;
  return false;
}

bool PushedQuery::depends_on_order() const {
  for (const Key &key : keys_)
    if (key.weights != nullptr) return true;
  for (const Result &result : results_)
    if (result.kind == Result::Kind::FloatSum || result.kind == Result::Kind::FloatAverage ||
        (result.kind == Result::Kind::Extreme && has_floats(result.field)))
      return true;
  return false;
}

bool PushedQuery::add_key(Item *item) {
  const Field *field;
  const std::optional<uint32_t> place = columns_.place_of(item, &field);
  if (!place || !can_be_grouped(field)) return false;
  Key key = {const_cast<Field *>(field), *place, nullptr};
  if (has_texts(field) && field->charset() != &my_charset_bin) {
    std::string error;
    key.weights = StringCodec::create(field->charset(), StringCodec::Column::Variable, field->field_length, &error);
    if (key.weights == nullptr) return false;
  }
  keys_.push_back(std::move(key));
  return true;
}

bool PushedQuery::add_result(Item *item) {
  if (item->type() == Item::SUM_FUNC_ITEM) return add_aggregate(static_cast<Item_sum *>(item));
  if (item->type() != Item::FIELD_ITEM) return false;
  const Field *field = static_cast<Item_field *>(item)->field;
  for (uint32_t i = 0; i < keys_.size(); i++) {
    if (keys_[i].field != field) continue;
    results_.push_back({Result::Kind::Key, i, keys_[i].field, 0, 0});
    return true;
  }
  return false;
}

bool PushedQuery::add_aggregate(Item_sum *item) {
  if (item->has_with_distinct() || item->get_arg_count() != 1) return false;
  teak_aggregate_item aggregate = {};
  Result result = {Result::Kind::Count, static_cast<uint32_t>(aggregates_.size()), nullptr, 0, 0};
  bool is_set = false;
  switch (item->sum_func()) {
    case Item_sum::COUNT_FUNC:
      is_set = add_count(item, &aggregate);
      break;
    case Item_sum::SUM_FUNC:
      result.kind = Result::Kind::Sum;
      is_set = add_sum(item, &aggregate, &result);
      break;
    case Item_sum::AVG_FUNC:
      result.kind = Result::Kind::Average;
      result.added_scale = static_cast<Item_sum_avg *>(item)->prec_increment;
      is_set = add_sum(item, &aggregate, &result);
      break;
    case Item_sum::MIN_FUNC:
    case Item_sum::MAX_FUNC:
      result.kind = Result::Kind::Extreme;
      is_set = add_extreme(item, &aggregate, &result);
      break;
    default:
      break;
  }
  if (!is_set) return false;
  aggregates_.push_back(aggregate);
  results_.push_back(result);
  return true;
}

bool PushedQuery::add_count(Item_sum *item, teak_aggregate_item *aggregate) {
  Item *argument = item->get_arg(0);
  aggregate->kind = TEAK_AGGREGATE_COUNT_ROWS;
  if (argument->const_item()) return !argument->is_expensive() && !argument->is_null();
  const Field *field = field_of(argument, table_);
  if (field == nullptr) return false;
  if (!field->real_maybe_null()) return true;
  const std::optional<uint32_t> place = columns_.place_of(field);
  if (!place) return false;
  aggregate->kind = TEAK_AGGREGATE_COUNT;
  aggregate->column = *place;
  return true;
}

/* The server adds floats in the order in which it reads the rows, as the engine does. */
bool PushedQuery::add_float_sum(Item_sum *item, teak_aggregate_item *aggregate, Result *result) {
  const Field *field;
  const std::optional<uint32_t> place = columns_.place_of(item->get_arg(0), &field);
  if (!place || !has_floats(field)) return false;
  aggregate->kind = TEAK_AGGREGATE_SUM_FLOATS;
  aggregate->column = *place;
  result->kind = result->kind == Result::Kind::Sum ? Result::Kind::FloatSum : Result::Kind::FloatAverage;
  return true;
}

bool PushedQuery::add_sum(Item_sum *item, teak_aggregate_item *aggregate, Result *result) {
  if (item->result_type() == REAL_RESULT) return add_float_sum(item, aggregate, result);
  if (item->result_type() != DECIMAL_RESULT) return false;
  PushedExpression &expression = expressions_.emplace_back(&columns_);
  if (!expression.set(item->get_arg(0)) || expression.scale() != item->get_arg(0)->decimals) return false;
  aggregate->kind = TEAK_AGGREGATE_SUM;
  aggregate->steps = expression.steps().data();
  aggregate->step_count = expression.steps().size();
  result->scale = expression.scale();
  return true;
}

bool PushedQuery::add_extreme(Item_sum *item, teak_aggregate_item *aggregate, Result *result) {
  const Field *field;
  const std::optional<uint32_t> place = columns_.place_of(item->get_arg(0), &field);
  if (!place) return false;
  // Whether the server's result has the zeros depends on its plan.
  if ((field->flags & ZEROFILL_FLAG) != 0) return false;
  const bool is_min = item->sum_func() == Item_sum::MIN_FUNC;
  if (has_floats(field))
    aggregate->kind = is_min ? TEAK_AGGREGATE_MIN_FLOAT : TEAK_AGGREGATE_MAX_FLOAT;
  else if (number_kind(field) != NumberKind::None)
    aggregate->kind = is_min ? TEAK_AGGREGATE_MIN : TEAK_AGGREGATE_MAX;
  else
    return false;
  aggregate->column = *place;
  result->field = const_cast<Field *>(field);
  return true;
}

teak_status PushedQuery::open(teak_transaction *transaction, const std::vector<OpenTable *> &tables, size_t memory_max,
                              const teak_aggregate_calls *calls, teak_aggregate **aggregate) const {
  std::vector<teak_aggregate_table> read;
  for (const OpenTable *table : tables) read.push_back({table->share()->table(), table->share()->rows().beginning()});
  std::vector<teak_group_key> keys;
  for (const Key &key : keys_) keys.push_back({key.place, key.weights != nullptr});
  teak_aggregate_query query = {};
  query.columns = columns_.columns().data();
  query.column_count = columns_.columns().size();
  query.conditions = condition_.conditions().data();
  query.condition_count = condition_.conditions().size();
  query.keys = keys.data();
  query.key_count = keys.size();
  query.items = aggregates_.data();
  query.item_count = aggregates_.size();
  query.memory_max = memory_max;
  return teak_aggregate_open(transaction, read.data(), read.size(), 0, &query, calls, aggregate);
}

}  // namespace teak
