/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See information_schema.h: the tables of background jobs and of the log. */

#include "monitor/information_schema.h"

#include "monitor/lock_text.h"
#include "monitor/schema_table.h"

namespace teak {

namespace {

using Show::CEnd;
using Show::Column;
using Show::Datetime;
using Show::ULonglong;
using Show::Varchar;

constexpr uint DETAIL_CHARS = 1024;

/* NULLs if the name is not known. */
template <typename Info> void add_place(Row *row, const Info *info) {
  const bool is_unknown = info->table.data == nullptr;
  const SqlName name(info->table);
  row->text_or_null(name.database, is_unknown);
  row->text_or_null(name.table, is_unknown);
  row->text_or_null(info->index_number == 0 ? "PRIMARY" : text_of(info->index), is_unknown);
}

// -- TEAK_BACKGROUND_JOBS

ST_FIELD_INFO jobs_fields[] = {Column("JOB_STATE", Varchar(7), NOT_NULL),
                               Column("JOB_KIND", Varchar(16), NOT_NULL),
                               Column("DETAIL", Varchar(DETAIL_CHARS), NOT_NULL),
                               Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
                               Column("TABLE_NAME", Varchar(NAME_CHAR_LEN * 3), NULLABLE),
                               Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
                               Column("STARTED", Datetime(0), NULLABLE),
                               Column("ELAPSED_MS", ULonglong(), NULLABLE),
                               Column("BYTES_READ", ULonglong(), NULLABLE),
                               Column("BYTES_WRITTEN", ULonglong(), NULLABLE),
                               Column("PROGRESS_DONE", ULonglong(), NULLABLE),
                               Column("PROGRESS_TOTAL", ULonglong(), NULLABLE),
                               Column("WAITING_BYTES", ULonglong(), NULLABLE),
                               Column("RETRY_MS", ULonglong(), NULLABLE),
                               CEnd()};

const char *job_word(teak_job_kind kind) {
  switch (kind) {
    case TEAK_JOB_FLUSH:
      return "FLUSH";
    case TEAK_JOB_COMPACTION:
      return "COMPACTION";
    case TEAK_JOB_RELOCATION:
      return "RELOCATION";
    case TEAK_JOB_CHECKPOINT:
      return "CHECKPOINT";
    case TEAK_JOB_CHECKPOINT_ROUND:
      return "CHECKPOINT ROUND";
    case TEAK_JOB_INDEX_BUILD:
      return "INDEX BUILD";
    case TEAK_JOB_BULK_LOAD:
      return "BULK LOAD";
  }
  return "";
}

void add_job(Filling *filling, const teak_job_info *info) {
  Row row(filling->thd, filling->table);
  row.text(info->is_running ? "RUNNING" : "WAITING");
  row.text(job_word(info->kind));
  row.text(text_of(info->detail));
  add_place(&row, info);
  if (info->is_running)
    row.time(info->started_microseconds);
  else
    row.null();
  row.number_or_null(info->elapsed_milliseconds, !info->is_running);
  row.number_or_null(info->bytes_read, !info->has_io);
  row.number_or_null(info->bytes_written, !info->has_io);
  row.number_or_null(info->done, !info->has_progress);
  row.number_or_null(info->total, !info->has_progress);
  row.number_or_null(info->waiting_bytes, !info->has_waiting_bytes);
  row.number_or_null(info->retry_milliseconds, !info->has_failed);
  filling->failed = row.store();
}

// -- TEAK_LOG

ST_FIELD_INFO log_fields[] = {Column("START_LSN", ULonglong(), NOT_NULL),
                              Column("REPLAY_LSN", ULonglong(), NOT_NULL),
                              Column("NEEDED_LSN", ULonglong(), NOT_NULL),
                              Column("NEEDED_BY", Varchar(6), NULLABLE),
                              Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NULLABLE),
                              Column("TABLE_NAME", Varchar(NAME_CHAR_LEN * 3), NULLABLE),
                              Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
                              Column("DURABLE_LSN", ULonglong(), NOT_NULL),
                              Column("END_LSN", ULonglong(), NOT_NULL),
                              Column("SEGMENTS", ULonglong(), NOT_NULL),
                              Column("SEGMENT_BYTES", ULonglong(), NOT_NULL),
                              Column("SPARE_BYTES", ULonglong(), NOT_NULL),
                              Column("USED_BYTES", ULonglong(), NOT_NULL),
                              Column("SLOWDOWN_BYTES", ULonglong(), NULLABLE),
                              Column("STOP_BYTES", ULonglong(), NULLABLE),
                              Column("BOUND_BYTES", ULonglong(), NULLABLE),
                              CEnd()};

const char *need_word(teak_log_need need) {
  switch (need) {
    case TEAK_LOG_NEED_NONE:
      return "";
    case TEAK_LOG_NEED_INDEX:
      return "INDEX";
    case TEAK_LOG_NEED_COMMIT:
      return "COMMIT";
  }
  return "";
}

void add_log(Filling *filling, const teak_log_info *info) {
  Row row(filling->thd, filling->table);
  row.number(info->start);
  row.number(info->replay_from);
  row.number(info->needed_from);
  row.text_or_null(need_word(info->needed_by), info->needed_by == TEAK_LOG_NEED_NONE);
  add_place(&row, info);
  row.number(info->durable);
  row.number(info->end);
  row.number(info->segments);
  row.number(info->segments_bytes);
  row.number(info->spare_bytes);
  row.number(info->bytes);
  row.number_or_null(info->slow_bytes, !info->has_limits);
  row.number_or_null(info->stop_bytes, !info->has_limits);
  row.number_or_null(info->bytes_max, !info->has_limits);
  filling->failed = row.store();
}

}  // namespace

int init_background_jobs_table(void *schema_table) {
  return describe_schema_table(schema_table, jobs_fields, fill<teak_job_info, teak_job_list, add_job>);
}

int init_log_table(void *schema_table) {
  return describe_schema_table(schema_table, log_fields, fill<teak_log_info, teak_log_describe, add_log>);
}

}  // namespace teak
