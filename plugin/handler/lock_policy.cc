/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See lock_policy.h. */

#include "handler/lock_policy.h"

#include <algorithm>

namespace teak {

namespace {

teak_lock_mode mode_for(THD *thd, thr_lock_type type, bool writes) {
  if (writes) return TEAK_LOCK_EXCLUSIVE;
  if (type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_SKIP_LOCKED) return TEAK_LOCK_SHARED;
  if (thd_tx_isolation(thd) != ISO_SERIALIZABLE || !in_multi_statement_transaction(thd)) return TEAK_LOCK_NONE;
  switch (thd_sql_command(thd)) {
    case SQLCOM_CHECK:
    case SQLCOM_CHECKSUM:
    case SQLCOM_ANALYZE:
    case SQLCOM_OPTIMIZE:
      return TEAK_LOCK_NONE;
    default:
      return TEAK_LOCK_SHARED;
  }
}

/* Whether the writes of a statement depend on rows that it reads from a table. */
bool decides_writes(THD *thd, thr_lock_type type) {
  // ALTER TABLE and similar statements read tables that no other statement can write. CREATE TABLE ... SELECT is an
  // exception.
  if (!thd->in_sub_stmt && thd_sql_command(thd) != SQLCOM_CREATE_TABLE && !thd_sqlcom_can_generate_row_events(thd))
    return false;
  // A SELECT itself is not logged, but a function that it calls may be: TL_READ_NO_INSERT is also the lock type of tables
  // that a function reads.
  if (thd_sql_command(thd) == SQLCOM_SELECT && !thd->in_sub_stmt) return type == TL_READ_NO_INSERT;
  return type != TL_READ;
}

}  // namespace

void LockPolicy::request(thr_lock_type type) {
  requested_ = type;
  skip_locked_ = type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED;
}

void LockPolicy::set_mode(teak_lock_mode mode) {
  // The server's mutex serialises the users of a sequence.
  mode_ = open_.without_rollback() ? TEAK_LOCK_NONE : mode;
  retains_locks_ = false;
}

void LockPolicy::begin_statement(THD *thd, bool writes) {
  decides_writes_ = original_decides_writes_ || decides_writes(thd, requested_);
  set_mode(std::max(mode_for(thd, requested_, writes), min_mode_));
}

void LockPolicy::begin_substatement(THD *thd, thr_lock_type type) {
  request(type);
  decides_writes_ = decides_writes(thd, type);
  set_mode(mode_for(thd, type, type >= TL_WRITE_ALLOW_WRITE));
}

void LockPolicy::inherit(const LockPolicy &original) {
  min_mode_ = original.mode_;
  original_decides_writes_ = original.decides_writes_;
  skip_locked_ = original.skip_locked_;
}

bool LockPolicy::is_replayed() const {
  THD *thd = open_.thd();
  return decides_writes_ && logged_as_text(thd) && thd_tx_isolation(thd) >= ISO_REPEATABLE_READ &&
         !open_.without_rollback();
}

void LockPolicy::settle() {
  retains_locks_ = is_replayed();
  if (retains_locks_) mode_ = std::max(mode_, TEAK_LOCK_SHARED);
}

void LockPolicy::set_semi_consistent(bool wanted) {
  semi_consistent_ =
      wanted && mode_ == TEAK_LOCK_EXCLUSIVE && !skip_locked_ && thd_tx_isolation(open_.thd()) < ISO_REPEATABLE_READ;
}

bool LockPolicy::is_logging_impossible(THD *thd) {
  return thd_tx_isolation(thd) < ISO_REPEATABLE_READ && thd_binlog_format(thd) == BINLOG_FORMAT_STMT &&
         thd_binlog_filter_ok(thd) && thd_sqlcom_can_generate_row_events(thd);
}

}  // namespace teak
