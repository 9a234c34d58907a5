/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* DELETE of all rows of a table, which the engine executes as a whole. */

#include "handler/ha_teak.h"

#include <new>

#include "monitor/page_counting.h"

namespace teak {

/* Not for partitions: the server does not add up the numbers of their rows. */
int ha_teak::direct_delete_rows_init() {
  constexpr uint64_t ROWS_MIN = 1000;
  LEX &lex = *ha_thd()->lex;
  const SELECT_LEX &select = *lex.first_select_lex();
  const bool is_whole_table = lex.sql_command == SQLCOM_DELETE && pushed_cond == nullptr &&
                              !select.limit_params.explicit_limit && select.order_list.elements == 0 &&
                              table->part_info == nullptr && !table->versioned();
  if (!is_whole_table || !teak_table_can_delete_all(open_.share()->table(), ROWS_MIN)) return HA_ERR_WRONG_COMMAND;
  return 0;
}

int ha_teak::direct_delete_rows(ha_rows *count) {
  const PageCounting counting(handler_stats);
  uint64_t deleted = 0;
  int error;
  try {
    error = open_.begin_write();
    if (error == 0) {
      const teak_status status = teak_transaction_delete_all(open_.transaction(), open_.share()->table(), &deleted);
      error = open_.end_write(status == TEAK_OK ? 0 : open_.failure(status));
    }
  } catch (const std::bad_alloc &) {
    error = open_.out_of_memory();
  }
  *count = deleted;
  // Unlike after an error of delete_row(), the server does not do this.
  if (error != 0) print_error(error, MYF(0));
  return error;
}

}  // namespace teak
