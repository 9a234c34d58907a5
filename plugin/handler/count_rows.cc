/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* COUNT(*) without a scan: handler::records(). */

#include "handler/ha_teak.h"

#include "sql_select.h"

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
