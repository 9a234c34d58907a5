/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See check.h. */

#include "handler/check.h"

#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "handler/row_keys.h"
#include "session/cursor.h"

namespace teak {

namespace {

void report(THD *thd, const char *sentence) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_ERROR, ER_CHECK_NO_SUCH_TABLE, "%s", sentence);
}

bool is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

/* Checks that every row has its entry in every key, and that the number of entries of every key is the number of rows.
   If both are true, every entry has its row. */
class KeyCheck {
 public:
  KeyCheck(OpenTable &open, THD *thd) : open_(open), thd_(thd), cursors_(open.share()->indexes()) {
    keys_.reserve_indexes(cursors_.size());
  }

  int run() {
    for (uint32_t index = 1; index < cursors_.size(); index++) {
      cursors_[index] = std::make_unique<Cursor>();
      cursors_[index]->bind(open_.session(), open_.share()->table(), index, TEAK_LOCK_NONE, Cursor::Options());
    }
    int result = check_rows();
    for (uint32_t index = 1; result == HA_ADMIN_OK && index < cursors_.size(); index++) result = count_entries(index);
    return result;
  }

 private:
  int check_rows() {
    TABLE *table = open_.table();
    table->use_all_columns();
    if (open_.server().ha_rnd_init(true) != 0) return HA_ADMIN_FAILED;
    bool complete = true;
    int error = 0;
    while (complete && (error = open_.server().ha_rnd_next(table->record[0])) == 0) {
      rows_++;
      error = check_row(&complete);
      if (error != 0) break;
    }
    open_.server().ha_rnd_end();
    if (!complete) return HA_ADMIN_CORRUPT;
    if (error == HA_ERR_END_OF_FILE) return HA_ADMIN_OK;
    report(thd_, open_.error_text().c_str());
    return error == HA_ERR_CRASHED ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
  }

  /* Looks up the entries of the row in the table's first record. Clears `complete` if a key does not have its entry. */
  int check_row(bool *complete) {
    if (!keys_.encode(*open_.share(), open_.row_id(), open_.table()->record[0])) return open_.out_of_memory();
    for (uint32_t index = 1; index < cursors_.size(); index++) {
      teak_row entry;
      const teak_status status = cursors_[index]->get(keys_.key(index), &entry);
      if (status != TEAK_OK && status != TEAK_NOT_FOUND) return open_.failure(status);
      if (status == TEAK_OK && keys_.is_value(index, entry.value)) continue;
      const std::string sentence = "row " + std::to_string(rows_) + " is not in key " + key_name(index);
      report(thd_, sentence.c_str());
      *complete = false;
    }
    return 0;
  }

  int count_entries(uint32_t index) {
    uint64_t entries = 0;
    teak_row entry;
    teak_status status = cursors_[index]->first(&entry);
    for (; status == TEAK_OK && !is_killed(thd_); status = cursors_[index]->next(&entry)) entries++;
    if (status != TEAK_NOT_FOUND) return HA_ADMIN_FAILED;
    if (entries == rows_) return HA_ADMIN_OK;
    const std::string sentence = "key " + key_name(index) + " has " + std::to_string(entries) + " entries for " +
                                 std::to_string(rows_) + " rows";
    report(thd_, sentence.c_str());
    return HA_ADMIN_CORRUPT;
  }

  std::string key_name(uint32_t index) const {
    const LEX_CSTRING &name = open_.table()->key_info[open_.share()->key_of(index)].name;
    return std::string(name.str, name.length);
  }

  OpenTable &open_;
  THD *const thd_;
  std::vector<std::unique_ptr<Cursor>> cursors_;  // by index; nullptr for the index of the rows
  RowKeys keys_;
  uint64_t rows_ = 0;
};

}  // namespace

bool is_undamaged(const OpenTable &open, THD *thd) {
  auto sink = [](void *, const char *, size_t) {};
  bool damaged = true;
  return teak_table_is_damaged(open.share()->table(), &damaged) == TEAK_OK && !damaged &&
         teak_table_verify(open.share()->table(), is_killed, sink, thd) == TEAK_OK;
}

int check_table(OpenTable &open, THD *thd, const HA_CHECK_OPT &options) {
  bool damaged = false;
  if (teak_table_is_damaged(open.share()->table(), &damaged) != TEAK_OK) return HA_ADMIN_FAILED;
  if (options.flags & T_QUICK) {
    if (damaged) report(thd, "a read of the table found damage");
    return damaged ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
  }
  auto sink = [](void *context, const char *text, size_t length) {
    push_warning_printf(static_cast<THD *>(context), Sql_condition::WARN_LEVEL_ERROR, ER_CHECK_NO_SUCH_TABLE, "%.*s",
                        static_cast<int>(length), text);
  };
  const teak_status status = teak_table_verify(open.share()->table(), is_killed, sink, thd);
  if (status != TEAK_OK) {
    report(thd, LastErrorText().c_str());
    if (is_killed(thd)) return HA_ADMIN_FAILED;
    return status == TEAK_CORRUPT || open.share()->is_unreadable() ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
  }
  return options.flags & T_EXTEND ? KeyCheck(open, thd).run() : HA_ADMIN_OK;
}

}  // namespace teak
