/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See information_schema.h. Each table is filled from one list of the engine, which the engine creates without
   blocking transactions. The tables require the PROCESS privilege, like InnoDB's. */

#include "monitor/information_schema.h"

#include <string>

#include "base/compression.h"
#include "base/engine.h"
#include "base/errors.h"
#include "base/xid_bytes.h"
#include "monitor/lock_text.h"
#include "sql_acl.h"
#include "sql_i_s.h"
#include "sql_show.h"
#include "sql_time.h"
#include "tztime.h"

namespace teak {

struct st_mysql_information_schema information_schema_info = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

namespace {

using Show::CEnd;
using Show::Column;
using Show::Datetime;
using Show::Decimal;
using Show::ULonglong;
using Show::Varchar;

constexpr uint KEY_CHARS = 4096;
constexpr uint STATEMENT_CHARS = 1024;
constexpr uint XID_CHARS = 600;

/* A row of the server's temporary table, filled column by column. */
class Row {
 public:
  Row(THD *thd, TABLE *table) : thd_(thd), table_(table) { restore_record(table, s->default_values); }

  void number(uint64_t value) { next()->store(static_cast<longlong>(value), true); }
  void number_or_null(uint64_t value, bool is_null) { is_null ? null() : number(value); }
  void text(const std::string &value) { next()->store(value.data(), value.size(), system_charset_info); }
  void text_or_null(const std::string &value, bool is_null) { is_null ? null() : text(value); }
  void time(uint64_t microseconds) {
    MYSQL_TIME when;
    thd_->variables.time_zone->gmt_sec_to_TIME(&when, static_cast<my_time_t>(microseconds / 1000000));
    next()->store_time_dec(&when, 0);
  }
  /* NULL if `of` is 0. */
  void ratio(uint64_t value, uint64_t of) {
    if (of == 0) return null();
    next()->store(static_cast<double>(value) / static_cast<double>(of));
  }
  void null() { next()->set_null(); }
  /* True: the row could not be stored. */
  bool store() { return schema_table_store_record(thd_, table_); }

 private:
  Field *next() {
    Field *field = table_->field[column_++];
    field->set_notnull();
    return field;
  }

  THD *const thd_;
  TABLE *const table_;
  uint column_ = 0;
};

struct Filling {
  THD *thd;
  TABLE *table;
  bool failed;
};

const char *isolation_word(uint32_t isolation) {
  static const char *words[] = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
  return isolation < array_elements(words) ? words[isolation] : "";
}

const char *mode_word(teak_lock_mode mode) {
  return mode == TEAK_LOCK_EXCLUSIVE ? "X" : mode == TEAK_LOCK_SHARED ? "S" : "";
}

std::string xid_text(teak_slice bytes) {
  XID xid;
  if (!XidBytes::parse(bytes, &xid)) return hexadecimal(bytes);
  const auto *data = reinterpret_cast<const uint8_t *>(xid.data);
  std::string text = "X'" + hexadecimal({data, static_cast<size_t>(xid.gtrid_length)});
  text += "',X'" + hexadecimal({data + xid.gtrid_length, static_cast<size_t>(xid.bqual_length)});
  return text + "'," + std::to_string(xid.formatID);
}

// -- TEAK_TRX

ST_FIELD_INFO trx_fields[] = {Column("TRX_ID", ULonglong(), NOT_NULL),
                              Column("TRX_MYSQL_THREAD_ID", ULonglong(), NULLABLE),
                              Column("TRX_STATE", Varchar(13), NOT_NULL),
                              Column("TRX_ISOLATION_LEVEL", Varchar(16), NOT_NULL),
                              Column("TRX_STARTED", Datetime(0), NOT_NULL),
                              Column("TRX_SNAPSHOT", ULonglong(), NULLABLE),
                              Column("TRX_ROWS_WRITTEN", ULonglong(), NOT_NULL),
                              Column("TRX_WRITE_IDS", ULonglong(), NOT_NULL),
                              Column("TRX_ROWS_LOCKED", ULonglong(), NOT_NULL),
                              Column("TRX_LOCK_MEMORY_BYTES", ULonglong(), NOT_NULL),
                              Column("TRX_WAITED_MS", ULonglong(), NULLABLE),
                              Column("TRX_XID", Varchar(XID_CHARS), NULLABLE),
                              Column("TRX_QUERY", Varchar(STATEMENT_CHARS), NULLABLE),
                              CEnd()};

void add_transaction(Filling *filling, const teak_transaction_info *info) {
  const bool is_prepared = info->prepared_as.data != nullptr;
  std::string statement = statement_of(info->thread);
  Row row(filling->thd, filling->table);
  row.number(info->id);
  row.number_or_null(info->thread, info->thread == 0);
  row.text(is_prepared ? "PREPARED" : info->is_waiting ? "LOCK WAIT" : "RUNNING");
  row.text(isolation_word(info->isolation));
  row.time(info->started_microseconds);
  row.number_or_null(info->snapshot, info->snapshot == 0);
  row.number(info->rows_written);
  row.number(info->write_ids);
  row.number(info->row_locks);
  row.number(info->lock_bytes);
  row.number_or_null(info->waited_milliseconds, !info->is_waiting);
  row.text_or_null(is_prepared ? xid_text(info->prepared_as) : "", !is_prepared);
  row.text_or_null(statement, statement.empty());
  filling->failed = row.store();
}

// -- TEAK_LOCKS

ST_FIELD_INFO locks_fields[] = {Column("LOCK_TRX_ID", ULonglong(), NOT_NULL),
                                Column("LOCK_MYSQL_THREAD_ID", ULonglong(), NULLABLE),
                                Column("LOCK_KIND", Varchar(16), NOT_NULL),
                                Column("LOCK_MODE", Varchar(1), NOT_NULL),
                                Column("LOCK_DATABASE", Varchar(NAME_CHAR_LEN), NULLABLE),
                                Column("LOCK_TABLE", Varchar(NAME_CHAR_LEN * 3), NULLABLE),
                                Column("LOCK_INDEX", Varchar(NAME_CHAR_LEN), NULLABLE),
                                Column("LOCK_KEY", Varchar(KEY_CHARS), NULLABLE),
                                Column("LOCK_KEY_END", Varchar(KEY_CHARS), NULLABLE),
                                Column("LOCK_ROWS_WRITTEN", ULonglong(), NULLABLE),
                                CEnd()};

void add_place(Row *row, teak_slice table, teak_slice index) {
  SqlName name(table);
  row->text_or_null(name.database, table.data == nullptr);
  row->text_or_null(name.table, table.data == nullptr);
  row->text_or_null(std::string(reinterpret_cast<const char *>(index.data), index.len), index.data == nullptr);
}

void add_lock(Filling *filling, const teak_lock_info *info) {
  Row row(filling->thd, filling->table);
  row.number(info->transaction);
  row.number_or_null(info->thread, info->thread == 0);
  row.text(kind_name(info->kind));
  row.text(mode_word(info->mode));
  add_place(&row, info->table, info->index);
  row.text_or_null(hexadecimal(info->low), info->low.data == nullptr);
  row.text_or_null(hexadecimal(info->high), info->high.data == nullptr);
  row.number_or_null(info->rows, info->kind != TEAK_LOCK_KIND_WRITTEN);
  filling->failed = row.store();
}

// -- TEAK_LOCK_WAITS

ST_FIELD_INFO lock_waits_fields[] = {Column("REQUESTING_TRX_ID", ULonglong(), NOT_NULL),
                                     Column("REQUESTING_MYSQL_THREAD_ID", ULonglong(), NULLABLE),
                                     Column("BLOCKING_TRX_ID", ULonglong(), NOT_NULL),
                                     Column("BLOCKING_MYSQL_THREAD_ID", ULonglong(), NULLABLE),
                                     Column("LOCK_KIND", Varchar(16), NOT_NULL),
                                     Column("LOCK_MODE", Varchar(1), NOT_NULL),
                                     Column("LOCK_DATABASE", Varchar(NAME_CHAR_LEN), NULLABLE),
                                     Column("LOCK_TABLE", Varchar(NAME_CHAR_LEN * 3), NULLABLE),
                                     Column("LOCK_INDEX", Varchar(NAME_CHAR_LEN), NULLABLE),
                                     Column("LOCK_KEY", Varchar(KEY_CHARS), NULLABLE),
                                     Column("WAITED_MS", ULonglong(), NOT_NULL),
                                     CEnd()};

void add_wait(Filling *filling, const teak_wait_info *info) {
  Row row(filling->thd, filling->table);
  row.number(info->requester);
  row.number_or_null(info->requester_thread, info->requester_thread == 0);
  row.number(info->blocker);
  row.number_or_null(info->blocker_thread, info->blocker_thread == 0);
  row.text(kind_name(info->kind));
  row.text(mode_word(info->mode));
  add_place(&row, info->table, info->index);
  row.text(hexadecimal(info->key));
  row.number(info->waited_milliseconds);
  filling->failed = row.store();
}

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
                                  Column("BYTES_WRITTEN", ULonglong(), NOT_NULL),
                                  Column("WRITE_AMPLIFICATION", Decimal(702), NULLABLE),
                                  CEnd()};

std::string text_of(teak_slice bytes) { return std::string(reinterpret_cast<const char *>(bytes.data), bytes.len); }

void add_index(Filling *filling, const teak_index_info *info) {
  const SqlName name(info->table);
  Row row(filling->thd, filling->table);
  row.text(name.database);
  row.text(name.table);
  row.text(info->index == 0 ? "PRIMARY" : text_of(info->label));
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
  row.number(info->bytes_written);
  row.ratio(info->raw_bytes_written, info->raw_bytes_flushed);
  filling->failed = row.store();
}

template <typename Info, void (*add)(Filling *, const Info *)> void try_to_add(void *context, const Info *info) {
  auto *filling = static_cast<Filling *>(context);
  if (filling->failed) return;
  try {
    add(filling, info);
  } catch (const std::bad_alloc &) {
    filling->failed = raise_out_of_memory();
  }
}

template <typename Info, teak_status (*list)(teak_engine *, void (*)(void *, const Info *), void *),
          void (*add)(Filling *, const Info *)>
int fill(THD *thd, TABLE_LIST *tables, Item *) {
  if (check_global_access(thd, PROCESS_ACL)) return 1;
  if (engine == nullptr) return 0;
  Filling filling = {thd, tables->table, false};
  teak_status status = list(engine, try_to_add<Info, add>, &filling);
  if (status != TEAK_OK) raise(thd, status, tables->table_name.str);
  return status != TEAK_OK || filling.failed;
}

int describe(void *schema_table, ST_FIELD_INFO *fields, int (*fill_table)(THD *, TABLE_LIST *, Item *)) {
  auto *table = static_cast<ST_SCHEMA_TABLE *>(schema_table);
  table->fields_info = fields;
  table->fill_table = fill_table;
  return 0;
}

}  // namespace

int init_trx_table(void *schema_table) {
  return describe(schema_table, trx_fields, fill<teak_transaction_info, teak_transaction_list, add_transaction>);
}

int init_locks_table(void *schema_table) {
  return describe(schema_table, locks_fields, fill<teak_lock_info, teak_lock_list, add_lock>);
}

int init_lock_waits_table(void *schema_table) {
  return describe(schema_table, lock_waits_fields, fill<teak_wait_info, teak_lock_wait_list, add_wait>);
}

int init_indexes_table(void *schema_table) {
  return describe(schema_table, indexes_fields, fill<teak_index_info, teak_index_list, add_index>);
}

int deinit_table(void *) { return 0; }

}  // namespace teak
