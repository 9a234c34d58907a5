/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See open_table.h. */

#include "table/open_table.h"

#include <new>

#include "base/errors.h"
#include "session/query_cache.h"

#include "sql_admin.h"

namespace teak {

namespace {

/* Whether the statement can use a damaged table. */
bool is_examined(THD *thd) {
  const int command = thd_sql_command(thd);
  return command == SQLCOM_CHECK || command == SQLCOM_REPAIR;
}

/* Whether the statement is ALTER TABLE ... CHECK PARTITION or REPAIR PARTITION. It locks all partitions, and examines
   some. */
bool examines_partitions(THD *thd) {
  if (thd_sql_command(thd) != SQLCOM_ALTER_TABLE) return false;
  const Sql_cmd *statement = thd->lex->m_sql_cmd;
  return dynamic_cast<const Sql_cmd_check_table *>(statement) != nullptr ||
         dynamic_cast<const Sql_cmd_repair_table *>(statement) != nullptr;
}

bool is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

}  // namespace

void OpenTable::close() {
  share_ = nullptr;
  session_ = nullptr;
  own_session_.reset();
  own_share_.reset();
}

int OpenTable::open_to_repair() {
  Share *share = nullptr;
  const int error = Share::open(thd(), name_.c_str(), table(), Share::Purpose::Repair, &share, &error_text_);
  own_share_.reset(share);
  share_ = share;
  // No other statement may use this instance. check() and repair() ensure that, too, but not every statement that opens
  // a table to repair it calls them.
  if (error == 0) table()->internal_set_needs_reopen(true);
  return error;
}

int OpenTable::failure(teak_status status) {
  THD *thd = this->thd();
  const int error = convert(thd, status, name_.c_str(), &error_text_);
  if (status == TEAK_LOCK_TIMEOUT || status == TEAK_DEADLOCK)
    if (Session *session = Session::find(thd)) session->note_failed_wait();
  return error;
}

int OpenTable::out_of_memory() { return with_text(HA_ERR_OUT_OF_MEM, "out of memory"); }

int OpenTable::corrupt(const char *what) {
  const int error = with_text(HA_ERR_CRASHED, what);
  sql_print_error("TEAK: %s", error_text_.c_str());
  push_warning_printf(thd(), Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG, ER_THD(thd(), ER_GET_ERRMSG),
                      HA_ERR_CRASHED, error_text_.c_str(), "TEAK");
  return error;
}

int OpenTable::with_text(int error, const char *text) try {
  error_text_ = name_ + ": " + text;
  return error;
} catch (const std::bad_alloc &) {
  error_text_.clear();
  return error;
}

bool OpenTable::raise_error(int error) {
  if (error == HA_ERR_ABORTED_BY_USER && thd_kill_level(thd()) != THD_IS_NOT_KILLED)
    thd()->send_kill_message();
  else
    server_.print_error(error, MYF(0));
  return true;
}

Session *OpenTable::session_of(THD *thd) {
  if (!without_rollback()) return Session::find_or_create(thd);
  if (own_session_ == nullptr || own_session_->thd() != thd) own_session_.reset(Session::create_without_rollback(thd));
  return own_session_.get();
}

int OpenTable::use(THD *thd) {
  query_cache_use::notice_use();
  session_ = session_of(thd);
  if (session_ == nullptr) return out_of_memory();
  if (int error = session_->use()) return error;
  lacks_files_ = false;
  // TRUNCATE needs no files, so it works for a damaged table.
  if (share_->is_unreadable() || thd_sql_command(thd) == SQLCOM_TRUNCATE) return 0;
  const int error = open_files();
  if (error == 0 || error == HA_ERR_ABORTED_BY_USER) return error;
  if (is_examined(thd)) return open_to_repair();
  // A later CHECK or REPAIR must not find this instance in the server's cache.
  table()->mark_table_for_reopen();
  lacks_files_ = examines_partitions(thd);
  return lacks_files_ ? 0 : error;
}

int OpenTable::examine() {
  if (!lacks_files_) return 0;
  lacks_files_ = false;
  return open_to_repair();
}

int OpenTable::open_files() {
  const teak_status status = teak_table_open_files(share_->table(), is_killed, thd());
  return status == TEAK_OK ? 0 : failure(status);
}

void OpenTable::end_use() {
  if (own_session_ != nullptr) own_session_->rollback(true);
}

int OpenTable::begin_write() {
  if (session_ == nullptr || session_->transaction() == nullptr) {
    session_ = session_of(thd());
    if (session_ == nullptr) return out_of_memory();
    if (int error = session_->use()) return error;
  }
  wrote_ = true;
  if (query_cache_use::is_counting() && !is_temporary() && !without_rollback())
    session_->note_write(share_->query_cache_slot());
  teak_status status = session_->before_write(is_temporary());
  return status == TEAK_OK ? 0 : failure(status);
}

int OpenTable::end_write(int error) {
  if (error != 0 || !without_rollback()) return error;
  teak_status status = session_->write_done();
  return status == TEAK_OK ? 0 : failure(status);
}

void OpenTable::note_written_now() {
  (void)share_->set_written_at(time(nullptr));
  share_->note_change();
  share_->statistics().note_changes(written_rows_);
  written_rows_ = 0;
  wrote_ = false;
}

int OpenTable::assign_row_id() {
  uint64_t id;
  teak_status status = share_->next_row_id(&id);
  if (status != TEAK_OK) return failure(status);
  if (id >> ROW_ID_BITS_MAX != 0) return HA_ERR_RECORD_FILE_FULL;
  mi_int8store(row_id_, id);
  return 0;
}

}  // namespace teak
