/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See information_schema.h: the tables of transactions and locks. The engine creates their lists without blocking
   transactions. */

#include "monitor/information_schema.h"

#include <string>

#include "base/xid_bytes.h"
#include "monitor/lock_text.h"
#include "monitor/schema_table.h"

namespace teak {

struct st_mysql_information_schema information_schema_info = {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

namespace {

using Show::CEnd;
using Show::Column;
using Show::Datetime;
using Show::ULonglong;
using Show::Varchar;

constexpr uint KEY_CHARS = 4096;
constexpr uint STATEMENT_CHARS = 1024;
constexpr uint XID_CHARS = 600;

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

}  // namespace

int init_trx_table(void *schema_table) {
  return describe_schema_table(schema_table, trx_fields,
                               fill<teak_transaction_info, teak_transaction_list, add_transaction>);
}

int init_locks_table(void *schema_table) {
  return describe_schema_table(schema_table, locks_fields, fill<teak_lock_info, teak_lock_list, add_lock>);
}

int init_lock_waits_table(void *schema_table) {
  return describe_schema_table(schema_table, lock_waits_fields, fill<teak_wait_info, teak_lock_wait_list, add_wait>);
}

int deinit_table(void *) { return 0; }

}  // namespace teak
