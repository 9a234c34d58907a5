/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See information_schema.h: the tables of indexes and their files. */

#include "monitor/information_schema.h"

#include "base/compression.h"
#include "base/encryption_keys.h"
#include "reports/column_names.h"
#include "monitor/lock_text.h"
#include "monitor/schema_table.h"

/* Of the server. The values with which conditions compare the columns TABLE_SCHEMA and TABLE_NAME. True: no row can match. */
bool get_lookup_field_values(THD *thd, COND *condition, bool fix_table_name_case, TABLE_LIST *tables,
                             LOOKUP_FIELD_VALUES *values);

namespace teak {

namespace {

constexpr uint ENCODINGS_CHARS = 512;

using Show::CEnd;
using Show::Column;
using Show::Decimal;
using Show::ULong;
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

// -- TEAK_ENCRYPTION

ST_FIELD_INFO encryption_fields[] = {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                     Column("TABLE_NAME", Varchar(NAME_CHAR_LEN * 3), NOT_NULL),
                                     Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                     Column("FILE_NAME", Varchar(FN_REFLEN), NOT_NULL),
                                     Column("KEY_ID", ULong(), NULLABLE),
                                     Column("NEWEST_KEY_VERSION", ULong(), NULLABLE),
                                     Column("OLD_KEY_ID", ULong(), NULLABLE),
                                     Column("OLDEST_KEY_VERSION", ULong(), NULLABLE),
                                     Column("IS_CURRENT", Varchar(3), NOT_NULL),
                                     CEnd()};

void add_encryption(Filling *filling, const teak_index_info *info) {
  const uint32_t newest = info->encryption_key == 0 ? 0 : newest_key_version(info->encryption_key);
  const bool is_current = !info->has_other_keys && info->encryption_key == info->encrypted_with_key &&
                          info->encrypted_with_version == newest;
  Row row(filling->thd, filling->table);
  add_index_name(&row, info);
  row.text(text_of(info->path));
  row.number_or_null(info->encryption_key, info->encryption_key == 0);
  row.number_or_null(newest, newest == 0);
  row.number_or_null(info->encrypted_with_key, info->encrypted_with_key == 0);
  row.number_or_null(info->encrypted_with_version, info->encrypted_with_key == 0);
  row.text(is_current ? "YES" : "NO");
  filling->failed = row.store();
}

// -- tables that read files: conditions on TABLE_SCHEMA and TABLE_NAME select the tables that are read

struct Reading {
  Filling filling;
  LOOKUP_FIELD_VALUES wanted;
  ColumnNames names;
  std::string named;  // the table whose names were read
};

bool is_selected(const LEX_CSTRING &wanted, const std::string &name) {
  if (wanted.str == nullptr) return true;
  const std::string text(wanted.str, wanted.length);
  return is_same_name({text.c_str(), text.size()}, {name.c_str(), name.size()});
}

bool wants_table(void *context, teak_slice table) {
  auto *reading = static_cast<Reading *>(context);
  try {
    const SqlName name(table);
    return is_selected(reading->wanted.db_value, name.database) && is_selected(reading->wanted.table_value, name.table);
  } catch (const std::bad_alloc &) {
    reading->filling.failed = raise_out_of_memory();
    return false;
  }
}

void skips_table(void *context, teak_slice table, teak_slice reason) {
  auto *reading = static_cast<Reading *>(context);
  push_warning_printf(reading->filling.thd, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG,
                      ER_THD(reading->filling.thd, ER_GET_ERRMSG), ERROR_OF_ENGINE,
                      (text_of(table) + ": " + text_of(reason)).c_str(), "TEAK");
}

bool is_interrupted(void *context) {
  auto *reading = static_cast<Reading *>(context);
  return reading->filling.failed || thd_kill_level(reading->filling.thd) != THD_IS_NOT_KILLED;
}

template <typename Info, void (*add)(Reading *, const Info *)> void try_to_read(void *context, const Info *info) {
  auto *reading = static_cast<Reading *>(context);
  if (reading->filling.failed) return;
  try {
    add(reading, info);
  } catch (const std::bad_alloc &) {
    reading->filling.failed = raise_out_of_memory();
  }
}

template <typename Info, teak_status (*list)(teak_engine *, const teak_table_visitor *, void (*)(void *, const Info *)),
          void (*add)(Reading *, const Info *)>
int read(THD *thd, TABLE_LIST *tables, Item *condition) try {
  if (check_global_access(thd, PROCESS_ACL)) return 1;
  if (engine == nullptr) return 0;
  Reading reading = {{thd, tables->table, false}, {}, {}, {}};
  if (get_lookup_field_values(thd, condition, true, tables, &reading.wanted)) return 0;  // no row can match
  const teak_table_visitor visitor = {&reading, wants_table, skips_table, is_interrupted};
  const teak_status status = list(engine, &visitor, try_to_read<Info, add>);
  if (reading.filling.failed) return 1;
  if (status != TEAK_OK) raise(thd, status, tables->table_name.str);
  return status != TEAK_OK;
} catch (const std::bad_alloc &) {
  return raise_out_of_memory();
}

int describe_reading_table(void *schema_table, ST_FIELD_INFO *fields, int (*fill_table)(THD *, TABLE_LIST *, Item *)) {
  auto *table = static_cast<ST_SCHEMA_TABLE *>(schema_table);
  table->idx_field1 = 0;  // TABLE_SCHEMA
  table->idx_field2 = 1;  // TABLE_NAME
  return describe_schema_table(schema_table, fields, fill_table);
}

// -- TEAK_COLUMNS

ST_FIELD_INFO columns_fields[] = {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                  Column("TABLE_NAME", Varchar(NAME_CHAR_LEN * 3), NOT_NULL),
                                  Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                  Column("PART", Varchar(16), NOT_NULL),
                                  Column("POSITION", ULonglong(), NULLABLE),
                                  Column("COLUMN_NAME", Varchar(NAME_CHAR_LEN), NULLABLE),
                                  Column("KIND", Varchar(16), NULLABLE),
                                  Column("WIDTH", ULonglong(), NULLABLE),
                                  Column("ENCODINGS", Varchar(ENCODINGS_CHARS), NOT_NULL),
                                  Column("SAMPLED_VALUES", ULonglong(), NOT_NULL),
                                  Column("RAW_BYTES", ULonglong(), NOT_NULL),
                                  Column("ENCODED_BYTES", ULonglong(), NOT_NULL),
                                  Column("RATIO", Decimal(702), NULLABLE),
                                  Column("PART_PAGES", ULonglong(), NOT_NULL),
                                  Column("SAMPLED_PAGES", ULonglong(), NOT_NULL),
                                  Column("SAMPLED_ENCODED_BYTES", ULonglong(), NOT_NULL),
                                  Column("SAMPLED_STORED_BYTES", ULonglong(), NOT_NULL),
                                  Column("PAGES", ULonglong(), NOT_NULL),
                                  CEnd()};

const char *part_word(teak_page_part part) {
  switch (part) {
    case TEAK_PAGE_PART_HEADS:
      return "HEADS";
    case TEAK_PAGE_PART_KEYS:
      return "KEYS";
    case TEAK_PAGE_PART_KEY_COLUMN:
      return "KEY COLUMN";
    case TEAK_PAGE_PART_VALUES:
      return "VALUES";
    case TEAK_PAGE_PART_VALUE_COLUMN:
      return "VALUE COLUMN";
  }
  return "";
}

const char *column_kind_word(teak_column_kind kind) {
  switch (kind) {
    case TEAK_COLUMN_BYTES:
      return "bytes";
    case TEAK_COLUMN_UNSIGNED_LITTLE:
      return "unsigned";
    case TEAK_COLUMN_SIGNED_LITTLE:
      return "signed";
    case TEAK_COLUMN_UNSIGNED_BIG:
      return "big-endian";
    case TEAK_COLUMN_FLOAT:
      return "float";
    case TEAK_COLUMN_DECIMAL:
      return "decimal";
  }
  return "";
}

void add_column(Reading *reading, const teak_column_info *info) {
  std::string table = text_of(info->table);
  if (table != reading->named) {
    reading->names.read(reading->filling.thd, info->table);
    reading->named = std::move(table);
  }
  const bool is_key = info->part == TEAK_PAGE_PART_KEY_COLUMN, is_value = info->part == TEAK_PAGE_PART_VALUE_COLUMN;
  const std::string *name = nullptr;
  if (is_key) name = reading->names.of_key(info->index, info->column);
  if (is_value) name = reading->names.of_value(info->column);
  const bool is_string = is_value && !info->has_kind;
  Row row(reading->filling.thd, reading->filling.table);
  add_index_name(&row, info);
  row.text(part_word(info->part));
  row.number_or_null(info->column, !is_key && !is_value);
  row.text_or_null(name == nullptr ? "" : *name, name == nullptr);
  row.text_or_null(is_string ? "string" : column_kind_word(static_cast<teak_column_kind>(info->kind)),
                   !is_string && !info->has_kind);
  row.number_or_null(info->width, !info->has_kind);
  row.text(text_of(info->encodings));
  row.number(info->values);
  row.number(info->raw_bytes);
  row.number(info->encoded_bytes);
  row.ratio(info->raw_bytes, info->encoded_bytes);
  row.number(info->part_pages);
  row.number(info->sampled_pages);
  row.number(info->sampled_encoded_bytes);
  row.number(info->sampled_stored_bytes);
  row.number(info->pages);
  reading->filling.failed = row.store();
}

// -- TEAK_BLOCK_MAP

ST_FIELD_INFO block_map_fields[] = {Column("TABLE_SCHEMA", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                    Column("TABLE_NAME", Varchar(NAME_CHAR_LEN * 3), NOT_NULL),
                                    Column("INDEX_NAME", Varchar(NAME_CHAR_LEN), NOT_NULL),
                                    Column("EXTENT_OFFSET", ULonglong(), NOT_NULL),
                                    Column("BYTES", ULonglong(), NOT_NULL),
                                    Column("KIND", Varchar(16), NOT_NULL),
                                    Column("BLOCKS", ULonglong(), NULLABLE),
                                    Column("RUN", ULonglong(), NULLABLE),
                                    Column("RUN_FORM", Varchar(6), NULLABLE),
                                    Column("HEIGHT", ULonglong(), NULLABLE),
                                    CEnd()};

const char *range_word(teak_range_kind kind) {
  switch (kind) {
    case TEAK_RANGE_SUPERBLOCKS:
      return "SUPERBLOCKS";
    case TEAK_RANGE_SPACE_MAP:
      return "SPACE MAP";
    case TEAK_RANGE_NODE:
      return "NODE";
    case TEAK_RANGE_SHARED_RUNS:
      return "SHARED RUNS";
    case TEAK_RANGE_INDEX:
      return "INDEX";
    case TEAK_RANGE_PAGES:
      return "PAGES";
    case TEAK_RANGE_UNLISTED:
      return "VALUES";
    case TEAK_RANGE_FREE:
      return "FREE";
    case TEAK_RANGE_UNAVAILABLE:
      return "UNAVAILABLE";
  }
  return "";
}

void add_range(Reading *reading, const teak_range_info *info) {
  Row row(reading->filling.thd, reading->filling.table);
  add_index_name(&row, info);
  row.number(info->offset);
  row.number(info->bytes);
  row.text(range_word(info->kind));
  row.number_or_null(info->blocks, info->blocks == 0);
  row.number_or_null(info->run, !info->has_run);
  row.text_or_null(info->is_bottom ? "BOTTOM" : "UPPER", !info->has_run);
  row.number_or_null(info->height, info->height == 0);
  reading->filling.failed = row.store();
}

}  // namespace

int init_columns_table(void *schema_table) {
  return describe_reading_table(schema_table, columns_fields, read<teak_column_info, teak_column_list, add_column>);
}

int init_block_map_table(void *schema_table) {
  return describe_reading_table(schema_table, block_map_fields, read<teak_range_info, teak_block_map, add_range>);
}

int init_encryption_table(void *schema_table) {
  return describe_schema_table(schema_table, encryption_fields, fill<teak_index_info, teak_index_list, add_encryption>);
}

int init_indexes_table(void *schema_table) {
  return describe_schema_table(schema_table, indexes_fields, fill<teak_index_info, teak_index_list, add_index>);
}

}  // namespace teak
