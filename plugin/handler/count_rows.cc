/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* COUNT(*) without a scan: handler::records(). */

#include "handler/ha_teak.h"

#include "sql_select.h"

#include "monitor/variables.h"

namespace teak {

namespace {

/* Whether the statement may need the number itself, for COUNT(*) of all rows. The optimiser also calls records() to compare the
   costs of keys; then the transaction must not take its snapshot, because it may not read the table at all. */
bool may_count_all(const TABLE *table) {
  const TABLE_LIST *reference = table->pos_in_table_list;
  if (reference == nullptr || reference->select_lex == nullptr) return true;
  const JOIN *join = reference->select_lex->join;
  return join == nullptr || join->implicit_grouping;
}

/* Whether the statement reads all rows for another aggregate. If the number of rows is known before, the server computes the
   query; otherwise the engine may compute all aggregates (pushdown/). */
bool has_other_aggregates(const TABLE *table) {
  const TABLE_LIST *reference = table->pos_in_table_list;
  JOIN *join = reference != nullptr && reference->select_lex != nullptr ? reference->select_lex->join : nullptr;
  if (join == nullptr) return false;
  List_iterator_fast<Item> each(join->all_fields);
  while (Item *item = each++) {
    if (item->type() != Item::SUM_FUNC_ITEM) continue;
    Item_sum *aggregate = static_cast<Item_sum *>(item);
    const Item_sum::Sumfunctype kind = aggregate->sum_func();
    if (kind == Item_sum::COUNT_FUNC) continue;
    if (kind != Item_sum::MIN_FUNC && kind != Item_sum::MAX_FUNC) return true;
    // The server looks up those of columns with which a key begins.
    const Item *argument = aggregate->get_arg(0)->real_item();
    if (argument->type() != Item::FIELD_ITEM) return true;
    if (static_cast<const Item_field *>(argument)->field->key_start.is_clear_all()) return true;
  }
  return false;
}

}  // namespace

/* The number of rows, for COUNT(*); HA_POS_ERROR: it must be counted. ANALYZE and statements that show progress need only
   an estimate. EXPLAIN needs no number, and must not take the transaction's snapshot. */
ha_rows ha_teak::records() {
  THD *thd = open_.thd();
  switch (thd_sql_command(thd)) {
    case SQLCOM_ANALYZE:
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_OPTIMIZE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
      return stats.records;
    default:
      break;
  }
  if (!may_count_all(table)) return stats.records;
  if (session_group_by_pushdown(thd) && has_other_aggregates(table)) return HA_POS_ERROR;
  // A locking read must lock the rows.
  locks_.settle();
  if (locks_.locking()) return HA_POS_ERROR;
  teak_table *counted = open_.share()->table();
  if (thd->lex->describe) {
    const bool known = thd_tx_isolation(thd) != ISO_READ_UNCOMMITTED && teak_table_knows_row_count(counted);
    return known ? stats.records : HA_POS_ERROR;
  }
  teak_transaction *transaction = open_.session()->transaction_to_read();
  uint64_t rows = 0;
  const bool known = transaction != nullptr && teak_transaction_count_rows(transaction, counted, &rows) == TEAK_OK;
  return known ? rows : HA_POS_ERROR;
}

}  // namespace teak
