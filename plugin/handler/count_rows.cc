/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* COUNT(*) without a scan: handler::records(). */

#include "handler/ha_teak.h"

namespace teak {

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
