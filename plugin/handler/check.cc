/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* CHECK, ANALYZE and OPTIMIZE TABLE. CHECK walks every block; CHECK ... EXTENDED also looks up every row in every key, and
   counts that no key has more. */

#include <memory>

#include "base/errors.h"
#include "handler/ha_teak.h"

namespace teak {

namespace {

void report(THD *thd, const std::string &sentence) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_ERROR, ER_CHECK_NO_SUCH_TABLE, "%s", sentence.c_str());
}

bool is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

int admin_result(THD *thd) { return is_killed(thd) ? HA_ADMIN_FAILED : HA_ADMIN_INTERNAL_ERROR; }

}  // namespace

int ha_teak::check(THD *thd, HA_CHECK_OPT *options) {
  bool damaged = false;
  if (teak_table_is_damaged(share_->table(), &damaged) != TEAK_OK) return HA_ADMIN_INTERNAL_ERROR;
  if (options->flags & T_QUICK) {
    if (damaged) report(thd, "damage was met while the table was read");
    return damaged ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
  }
  auto sink = [](void *context, const char *text, size_t length) {
    report(static_cast<THD *>(context), std::string(text, length));
  };
  teak_status status = teak_table_verify(share_->table(), is_killed, sink, thd);
  if (status == TEAK_CORRUPT) {
    report(thd, last_error_text());
    return HA_ADMIN_CORRUPT;
  }
  if (status != TEAK_OK) {
    report(thd, last_error_text());
    return admin_result(thd);
  }
  return options->flags & T_EXTEND ? check_secondaries(thd) : HA_ADMIN_OK;
}

/* Every row has its entry in every key, and every key as many entries as there are rows: so no entry is without its row. */
int ha_teak::check_secondaries(THD *thd) {
  std::vector<std::unique_ptr<Cursor>> cursors(share_->indexes());
  for (uint32_t index = 1; index < share_->indexes(); index++) {
    cursors[index] = std::make_unique<Cursor>();
    cursors[index]->bind(session_, share_->table(), index, TEAK_LOCK_NONE, Cursor::Manner());
  }
  table->use_all_columns();
  uint64_t rows = 0;
  int result = HA_ADMIN_OK;
  int error = ha_rnd_init(true);
  if (error != 0) return HA_ADMIN_INTERNAL_ERROR;
  while ((error = ha_rnd_next(table->record[0])) == 0) {
    rows++;
    if (!encode_keys(table->record[0], &new_)) {
      error = out_of_memory();
      break;
    }
    for (uint32_t index = 1; index < share_->indexes(); index++) {
      teak_row entry;
      teak_status status = cursors[index]->get(slice(new_.keys[index]), &entry);
      if (status != TEAK_OK && status != TEAK_NOT_FOUND) {
        error = failure(status);
        break;
      }
      if (status == TEAK_NOT_FOUND || !is_value_of(new_, index, entry.value)) {
        report(thd, "row " + std::to_string(rows) + " is not in key " + key_name(index));
        result = HA_ADMIN_CORRUPT;
      }
    }
    if (error != 0 || result != HA_ADMIN_OK) break;
  }
  ha_rnd_end();
  if (error != 0 && error != HA_ERR_END_OF_FILE) {
    report(thd, error_text_);
    return error == HA_ERR_CRASHED ? HA_ADMIN_CORRUPT : admin_result(thd);
  }
  for (uint32_t index = 1; result == HA_ADMIN_OK && index < share_->indexes(); index++) {
    uint64_t entries = 0;
    teak_row entry;
    teak_status status = cursors[index]->first(&entry);
    for (; status == TEAK_OK && !is_killed(thd); status = cursors[index]->next(&entry)) entries++;
    if (status != TEAK_NOT_FOUND) return admin_result(thd);
    if (entries != rows) {
      report(thd, "key " + key_name(index) + " has " + std::to_string(entries) + " entries for " +
                      std::to_string(rows) + " rows");
      result = HA_ADMIN_CORRUPT;
    }
  }
  return result;
}

/* An entry may also be without its originals: an index that ALTER TABLE built before it kept them. */
bool ha_teak::is_value_of(const RowKeys &row, uint32_t index, teak_slice found) const {
  const teak_slice value = value_of(row, index);
  const size_t least = row.unique[index] ? row.keys[0].size() : 0;
  return (found.len == value.len || found.len == least) && memcmp(found.data, value.data, found.len) == 0;
}

std::string ha_teak::key_name(uint32_t index) const {
  const LEX_CSTRING &name = table->key_info[share_->key_of(index)].name;
  return std::string(name.str, name.length);
}

int ha_teak::analyze(THD *thd, HA_CHECK_OPT *) {
  if (int error = info(HA_STATUS_VARIABLE | HA_STATUS_TIME | HA_STATUS_NO_LOCK)) {
    print_error(error, MYF(0));
    return HA_ADMIN_FAILED;
  }
  teak_status status = share_->statistics().refresh(thd, table, stats.records, true);
  if (status == TEAK_OK) return HA_ADMIN_OK;
  print_error(failure(status), MYF(0));
  return HA_ADMIN_FAILED;
}

/* Built anew: what the server does for ALTER TABLE ... FORCE. */
int ha_teak::optimize(THD *, HA_CHECK_OPT *) { return HA_ADMIN_TRY_ALTER; }

}  // namespace teak
