/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See information_schema.h: the tables of indexes and their files. */

#include "monitor/information_schema.h"

#include "base/compression.h"
#include "monitor/lock_text.h"
#include "monitor/schema_table.h"

namespace teak {

namespace {

using Show::CEnd;
using Show::Column;
using Show::Decimal;
using Show::ULonglong;
using Show::Varchar;

// -- TEAK_INDEXES

ST_FIELD_INFO indexes_fields[] = {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                  Column("TABLE_NAME", Varchar(NAME_CHAR_LEN * 3), NOT_NULL),
                                  Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                  Column("FILE_NAME", Varchar(FN_REFLEN), NOT_NULL),
                                  Column("IS_OPEN", Varchar(3), NOT_NULL),
                                  Column("CODEC", Varchar(16), NOT_NULL),
                                  Column("ENTRIES", ULonglong(), NOT_NULL),
                                  Column("TOMBSTONES", ULonglong(), NOT_NULL),
                                  Column("RAW_BYTES", ULonglong(), NOT_NULL),
                                  Column("LIVE_BYTES", ULonglong(), NOT_NULL),
                                  Column("FILE_BYTES", ULonglong(), NOT_NULL),
                                  Column("RATIO", Decimal(702), NULLABLE),
                                  Column("MEMTABLE_BYTES", ULonglong(), NOT_NULL),
                                  Column("CACHED_BYTES", ULonglong(), NOT_NULL),
                                  Column("HEIGHT", ULonglong(), NOT_NULL),
                                  Column("RUNS", ULonglong(), NOT_NULL),
                                  Column("PAGES", ULonglong(), NOT_NULL),
                                  Column("BLOCKS_READ", ULonglong(), NOT_NULL),
                                  Column("BYTES_READ", ULonglong(), NOT_NULL),
                                  Column("FILTER_BYTES", ULonglong(), NOT_NULL),
                                  Column("FILTER_BITS_PER_ENTRY", Decimal(702), NULLABLE),
                                  Column("FILTER_CHECKS", ULonglong(), NOT_NULL),
                                  Column("FILTER_NEGATIVES", ULonglong(), NOT_NULL),
                                  Column("BYTES_WRITTEN", ULonglong(), NOT_NULL),
                                  Column("WRITE_AMPLIFICATION", Decimal(702), NULLABLE),
                                  CEnd()};

template <typename Info> void add_index_name(Row *row, const Info *info) {
  const SqlName name(info->table);
  row->text(name.database);
  row->text(name.table);
  row->text(info->index == 0 ? "PRIMARY" : text_of(info->label));
}

void add_index(Filling *filling, const teak_index_info *info) {
  Row row(filling->thd, filling->table);
  add_index_name(&row, info);
  row.text(text_of(info->path));
  row.text(info->is_open ? "YES" : "NO");
  row.text(codec_name(static_cast<teak_codec>(info->codec)));
  row.number(info->entries);
  row.number(info->tombstones);
  row.number(info->raw_bytes);
  row.number(info->live_bytes);
  row.number(info->file_bytes);
  row.ratio(info->raw_bytes, info->live_bytes);
  row.number(info->memtable_bytes);
  row.number(info->cached_bytes);
  row.number(info->height);
  row.number(info->runs);
  row.number(info->pages);
  row.number(info->blocks_read);
  row.number(info->bytes_read);
  row.number(info->filter_bytes_in_memory);
  row.ratio(info->filter_bytes_in_memory * 8, info->filter_entries_in_memory);
  row.number(info->filter_checks);
  row.number(info->filter_negatives);
  row.number(info->bytes_written);
  row.ratio(info->raw_bytes_written, info->raw_bytes_flushed);
  filling->failed = row.store();
}

}  // namespace

int init_indexes_table(void *schema_table) {
  return describe_schema_table(schema_table, indexes_fields, fill<teak_index_info, teak_index_list, add_index>);
}

}  // namespace teak
