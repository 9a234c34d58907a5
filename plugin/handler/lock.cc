/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Where statements begin and what they lock. A table that is written, or read FOR UPDATE, is read with exclusive row
   locks, LOCK IN SHARE MODE with shared ones; all else reads a snapshot, except that SERIALIZABLE transactions of several
   statements read with shared locks.

   A statement that the binary log keeps as its text must do the same when it is replayed, in the order of commits. So
   everything that it reads is read with locks, and nobody changes it before the transaction ends. READ COMMITTED and
   below do not lock that much: there only rows are logged. */

#include <algorithm>

#include "handler/ha_teak.h"

namespace teak {

void ha_teak::request(thr_lock_type type) {
  requested_lock_ = type;
  skip_locked_ = type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED;
}

THR_LOCK_DATA **ha_teak::store_lock(THD *, THR_LOCK_DATA **to, enum thr_lock_type type) {
  if (type != TL_IGNORE) request(type);
  return to;
}

static teak_lock_mode mode_for(THD *thd, thr_lock_type type, bool writes) {
  if (writes) return TEAK_LOCK_EXCLUSIVE;
  if (type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_SKIP_LOCKED) return TEAK_LOCK_SHARED;
  if (thd_tx_isolation(thd) == ISO_SERIALIZABLE && in_transaction_of_many_statements(thd)) {
    switch (thd_sql_command(thd)) {
      case SQLCOM_CHECK:
      case SQLCOM_CHECKSUM:
      case SQLCOM_ANALYZE:
      case SQLCOM_OPTIMIZE:
        break;
      default:
        return TEAK_LOCK_SHARED;
    }
  }
  return TEAK_LOCK_NONE;
}

Session *ha_teak::session_of(THD *thd) {
  if (!without_rollback()) return Session::find_or_create(thd);
  if (own_session_ == nullptr || own_session_->thd() != thd) own_session_.reset(Session::create_without_rollback(thd));
  return own_session_.get();
}

/* Whether what is read of a table decides what a statement writes. */
static bool decides_writes(THD *thd, thr_lock_type type) {
  // ALTER TABLE and the like read what nobody else may write; the server does not count CREATE TABLE ... SELECT.
  if (!thd->in_sub_stmt && thd_sql_command(thd) != SQLCOM_CREATE_TABLE && !thd_sqlcom_can_generate_row_events(thd))
    return false;
  // The server says so of tables that a function reads; a SELECT of its own accord is not logged.
  if (thd_sql_command(thd) == SQLCOM_SELECT && !thd->in_sub_stmt) return type == TL_READ_NO_INSERT;
  return type != TL_READ;
}

static bool logging_impossible(THD *thd) {
  return thd_tx_isolation(thd) < ISO_REPEATABLE_READ && thd_binlog_format(thd) == BINLOG_FORMAT_STMT &&
         thd_binlog_filter_ok(thd) && thd_sqlcom_can_generate_row_events(thd);
}

int ha_teak::external_lock(THD *thd, int type) {
  if (type == F_UNLCK) {
    let_go_of_auto_increment();
    if (own_session_ != nullptr) own_session_->rollback(true);
    lock_mode_ = TEAK_LOCK_NONE;
    return 0;
  }
  if (type == F_WRLCK && logging_impossible(thd)) {
    // The server would say the same, without the reason.
    my_error(ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, MYF(0),
             " Teak is limited to row-logging when transaction isolation level is READ COMMITTED or READ UNCOMMITTED.");
    return HA_ERR_LOGGING_IMPOSSIBLE;
  }
#ifdef WITH_PARTITION_STORAGE_ENGINE
  // The server leaves this from a statement that needed no partition, and the next DELETE ... LIMIT by a key found nothing.
  table->all_partitions_pruned_away = false;
#endif
  decides_writes_ = clone_decides_writes_ || decides_writes(thd, requested_lock_);
  return use(thd, std::max(mode_for(thd, requested_lock_, type == F_WRLCK), least_lock_mode_));
}

int ha_teak::use(THD *thd, teak_lock_mode mode) {
  query_cache_use::notice_use();
  session_ = session_of(thd);
  if (session_ == nullptr) return out_of_memory();
  // The server's mutex keeps the users of a sequence apart.
  lock_mode_ = without_rollback() ? TEAK_LOCK_NONE : mode;
  keeps_rows_ = false;
  return session_->use();
}

bool ha_teak::replayed() const {
  THD *thd = ha_thd();
  return decides_writes_ && logged_as_text(thd) && thd_tx_isolation(thd) >= ISO_REPEATABLE_READ && !without_rollback();
}

/* Before the first read. When the tables were locked it was not known yet how the statement is logged. */
void ha_teak::settle_locks() {
  keeps_rows_ = replayed();
  if (keeps_rows_) lock_mode_ = std::max(lock_mode_, TEAK_LOCK_SHARED);
}

/* The server locks a clone for reading only, and fetches what it found through the original. */
handler *ha_teak::clone(const char *name, MEM_ROOT *memory) {
  handler *copy = handler::clone(name, memory);
  if (copy == nullptr) return nullptr;
  auto *own = static_cast<ha_teak *>(copy);
  own->least_lock_mode_ = lock_mode_;
  own->clone_decides_writes_ = decides_writes_;
  own->skip_locked_ = skip_locked_;
  return copy;
}

/* A statement within LOCK TABLES, or within a function or trigger: the table stays locked between them. */
int ha_teak::start_stmt(THD *thd, thr_lock_type type) {
  request(type);
  decides_writes_ = decides_writes(thd, type);
  return use(thd, mode_for(thd, type, type >= TL_WRITE_ALLOW_WRITE));
}

/* From REPEATABLE READ on, what a locking read looked at stays as it is: a row that does not match must not come to match. */
void ha_teak::unlock_row() {
  if (locking() && row_cursor_ != nullptr && thd_tx_isolation(ha_thd()) < ISO_REPEATABLE_READ) row_cursor_->unlock();
}

/* UPDATE at READ COMMITTED: a row that another transaction writes or has locked is looked at as it was committed last. Only
   one that matches is read again, and waited for. */
void ha_teak::try_semi_consistent_read(bool yes) {
  semi_consistent_ =
      yes && lock_mode_ == TEAK_LOCK_EXCLUSIVE && !skip_locked_ && thd_tx_isolation(ha_thd()) < ISO_REPEATABLE_READ;
  scan_.set_semi_consistent(semi_consistent_);
}

bool ha_teak::was_semi_consistent_read() { return row_cursor_ == &scan_ && scan_.is_unlocked(); }

}  // namespace teak
