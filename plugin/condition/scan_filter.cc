/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See scan_filter.h. */

#include "condition/scan_filter.h"

#include "monitor/measurements.h"

namespace teak {

namespace {

/* Whether parts of the condition must be evaluated for each row: RAND(), assignments of variables, loadable functions. */
bool must_see_each_row(COND *condition) {
  if ((condition->used_tables() & RAND_TABLE_BIT) != 0) return true;
  for (Item_func::Functype function : {Item_func::SUSERVAR_FUNC, Item_func::UDF_FUNC})
    if (condition->walk(&Item::find_function_processor, true, &function)) return true;
  return false;
}

}  // namespace

ScanFilter::~ScanFilter() {
  pages_passed_over.fetch_add(teak_page_filter_passed(filter_), std::memory_order_relaxed);
  pages_unread.fetch_add(teak_page_filter_unread(filter_), std::memory_order_relaxed);
  teak_page_filter_close(filter_);
}

bool ScanFilter::accepts(void *context, size_t condition, teak_slice text) {
  return static_cast<ScanFilter *>(context)->condition_.accepts(condition, text);
}

bool ScanFilter::open(teak_table *table, const COND *condition) {
  COND *parts = const_cast<COND *>(condition);
  if (must_see_each_row(parts) || !condition_.add_parts(parts)) return false;
  teak_page_filter_query query = {};
  query.beginning = rows_.beginning();
  query.columns = columns_.columns().data();
  query.column_count = columns_.columns().size();
  query.conditions = condition_.conditions().data();
  query.condition_count = condition_.conditions().size();
  query.accepts = accepts;
  query.context = this;
  return teak_page_filter_open(table, 0, &query, &filter_) == TEAK_OK;
}

void ScanFilter::describe(String *text) const {
  bool is_first = true;
  for (Item *part : condition_.parts()) {
    if (!is_first) text->append(STRING_WITH_LEN(" and "));
    is_first = false;
    part->print_parenthesised(text, QT_EXPLAIN, AND_PRECEDENCE);
  }
}

}  // namespace teak
