/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* DELETE of all rows of a table, or of a range of its primary key, which the engine executes as a whole. */

#include "handler/ha_teak.h"

#include <new>

#include "monitor/page_counting.h"

namespace teak {

namespace {

constexpr ha_rows ROWS_MIN = 1000;  // fewer rows are deleted one by one

bool is_plain_delete(THD *thd) {
  const LEX &lex = *thd->lex;
  const SELECT_LEX &select = *lex.first_select_lex();
  return lex.sql_command == SQLCOM_DELETE && !select.limit_params.explicit_limit && select.order_list.elements == 0;
}

}  // namespace

/* Accepts a condition that a range of the primary key is equivalent to, if the rows can be deleted as a whole. Tables with
   other keys would need the entries of each row. Scans use any condition as a hint. */
const Item *ha_teak::cond_push(const Item *condition) {
  scan_.push_condition(condition);
  deleted_range_.clear();
  if (!is_plain_delete(ha_thd()) || table->s->keys != 1 || table->part_info != nullptr || table->versioned() ||
      !teak_table_can_delete_range(open_.share()->table()) || !deleted_range_.set(*open_.share(), table, condition))
    return condition;
  uint64_t rows = 0;
  teak_index_estimate_entries(open_.share()->table(), 0, deleted_range_.lower(), deleted_range_.upper(), &rows);
  if (rows >= ROWS_MIN) return nullptr;
  deleted_range_.clear();
  return condition;
}

/* Not for partitions: the server does not add up the numbers of their rows. */
int ha_teak::direct_delete_rows_init() {
  if (pushed_cond != nullptr) return deleted_range_.is_set() ? 0 : HA_ERR_WRONG_COMMAND;
  deleted_range_.clear();
  const bool is_whole_table = is_plain_delete(ha_thd()) && table->part_info == nullptr && !table->versioned();
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
      open_.session()->bulk_inserts().note_write();
      teak_transaction *transaction = open_.transaction();
      teak_table *rows = open_.share()->table();
      const teak_status status = deleted_range_.is_set()
                                     ? teak_transaction_delete_range(transaction, rows, deleted_range_.lower(),
                                                                     deleted_range_.upper(), &deleted)
                                     : teak_transaction_delete_all(transaction, rows, &deleted);
      error = open_.end_write(status == TEAK_OK ? 0 : open_.failure(status));
    }
  } catch (const std::bad_alloc &) {
    error = open_.out_of_memory();
  }
  deleted_range_.clear();
  *count = deleted;
  // Unlike after an error of delete_row(), the server does not do this.
  if (error != 0) print_error(error, MYF(0));
  return error;
}

}  // namespace teak
