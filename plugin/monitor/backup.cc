/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See backup.h. */

#include "monitor/backup.h"

#include <algorithm>

#include "monitor/schema_table.h"
#include "monitor/variables.h"

namespace teak {

namespace {

using Show::CEnd;
using Show::Column;
using Show::Datetime;
using Show::ULonglong;
using Show::Varchar;

/* mariadb-backup may need a while until it blocks commits, and `teak backup` renews the request every few seconds. */
constexpr uint64_t ARMED_MILLISECONDS_MIN = 60'000;
constexpr uint PATH_CHARS = 1024;
constexpr uint ERROR_CHARS = 1024;

ST_FIELD_INFO backups_fields[] = {Column("STATE", Varchar(8), NOT_NULL),
                                  Column("TARGET", Varchar(PATH_CHARS), NOT_NULL),
                                  Column("ARMED", Datetime(0), NOT_NULL),
                                  Column("ENDED", Datetime(0), NULLABLE),
                                  Column("STAGES", ULonglong(), NOT_NULL),
                                  Column("LSN", ULonglong(), NULLABLE),
                                  Column("CUT_MICROSECONDS", ULonglong(), NULLABLE),
                                  Column("FILES", ULonglong(), NOT_NULL),
                                  Column("FILES_COPIED", ULonglong(), NOT_NULL),
                                  Column("BYTES_COPIED", ULonglong(), NOT_NULL),
                                  Column("PINNED_BYTES", ULonglong(), NOT_NULL),
                                  Column("ERROR", Varchar(ERROR_CHARS), NULLABLE),
                                  CEnd()};

const char *state_word(teak_backup_state state) {
  switch (state) {
    case TEAK_BACKUP_ARMED:
      return "ARMED";
    case TEAK_BACKUP_COPYING:
      return "COPYING";
    case TEAK_BACKUP_COMPLETE:
      return "COMPLETE";
    case TEAK_BACKUP_ENDED:
      return "FAILED";
  }
  return "";
}

void add_backup(Filling *filling, const teak_backup_info *info) {
  Row row(filling->thd, filling->table);
  row.text(state_word(info->state));
  row.text(text_of(info->target));
  row.time(info->armed_microseconds);
  if (info->ended_microseconds > 0)
    row.time(info->ended_microseconds);
  else
    row.null();
  row.number(info->stages);
  row.number_or_null(info->position, !info->is_cut);
  row.number_or_null(info->cut_microseconds, !info->is_cut);
  row.number(info->files);
  row.number(info->files_copied);
  row.number(info->bytes_copied);
  row.number(info->pinned_bytes);
  row.text_or_null(text_of(info->failure), info->failure.len == 0);
  filling->failed = row.store();
}

}  // namespace

bool begin_backup_stage() { return engine != nullptr && teak_backup_begin_stage(engine); }

void end_backup_stage() {
  THD *thd = current_thd;
  if (engine == nullptr || thd == nullptr) return;
  // The server calls this hook also when a backup is aborted in an earlier stage.
  const bool commits_are_blocked = thd->mdl_context.is_lock_owner(MDL_key::BACKUP, "", "", MDL_BACKUP_WAIT_COMMIT);
  teak_status status =
      teak_backup_end_stage(engine, commits_are_blocked, backup_max_pinned_bytes(), backup_lease_milliseconds());
  if (status != TEAK_OK) sql_print_error("TEAK: backup: %s", LastErrorText().c_str());
}

bool request_backup(const char *directory) {
  if (engine == nullptr) return false;
  const size_t length = directory == nullptr ? 0 : strlen(directory);
  teak_status status;
  if (length == 0)
    status = teak_backup_cancel(engine);
  else
    status = teak_backup_arm(engine, {reinterpret_cast<const uint8_t *>(directory), length}, backup_bytes_per_second(),
                             std::max(backup_lease_milliseconds(), ARMED_MILLISECONDS_MIN));
  if (status != TEAK_OK) my_printf_error(ER_UNKNOWN_ERROR, "teak_backup_target: %s", MYF(0), LastErrorText().c_str());
  return status != TEAK_OK;
}

int init_backups_table(void *schema_table) {
  return describe_schema_table(schema_table, backups_fields, fill<teak_backup_info, teak_backup_describe, add_backup>);
}

}  // namespace teak
