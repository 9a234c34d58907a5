/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See session.h. */

#include "session/session.h"

#include "base/engine.h"
#include "base/errors.h"
#include "base/xid_bytes.h"
#include "monitor/lock_text.h"
#include "monitor/variables.h"

namespace teak {

Session *Session::find(THD *thd) { return static_cast<Session *>(thd_get_ha_data(thd, engine_handlerton)); }

Session *Session::find_or_create(THD *thd) {
  Session *session = find(thd);
  if (session == nullptr) {
    session = new (std::nothrow) Session(thd, Kind::Transactional);
    if (session != nullptr) thd_set_ha_data(thd, engine_handlerton, session);
  }
  return session;
}

Session::~Session() {
  detach_cursors();
  if (!last_lock_timeout_.empty()) set_session_last_lock_timeout(thd_, nullptr);
  // A prepared XA transaction outlives its connection.
  if (is_prepared_) writes_.leave_to(prepared_as_.slice());
  if (teak_transaction *transaction = release())
    is_prepared_ ? teak_transaction_detach(transaction) : teak_transaction_rollback(transaction);
  if (kept_ != nullptr) teak_transaction_rollback(kept_);
  writes_.end();
}

teak_status Session::begin() {
  teak_transaction *transaction = kept_;
  auto isolation =
      kind_ == Kind::WithoutRollback ? TEAK_READ_COMMITTED : static_cast<teak_isolation>(thd_tx_isolation(thd_));
  teak_status status = transaction == nullptr ? teak_transaction_begin(engine, isolation, &transaction)
                                              : teak_transaction_begin_again(transaction, isolation);
  if (status != TEAK_OK) return status;
  if (kept_ == nullptr) {
    lock_timeout_ = session_lock_timeout(thd_);
    teak_transaction_set_lock_timeout(transaction, lock_timeout_);
    teak_transaction_set_thread(transaction, thd_get_thread_id(thd_));
    // A replica's applier should not be chosen as a victim: its transaction is already committed on the primary.
    if (thd_->slave_thread) teak_transaction_set_weight(transaction, 1);
    refuses_stale_writes_ = false;
    waits_for_disk_ = true;
  }
  if (kind_ == Kind::Transactional) teak_transaction_set_owner(transaction, thd_);
  kept_ = nullptr;
  writes_to_keep_ = false;
  std::lock_guard<std::mutex> guard(kill_mutex_);
  transaction_ = transaction;
  return TEAK_OK;
}

/* Each use must see the newest committed values. The connection's own session is used, too: it registers the engine
   with the server, which then calls the hooks at the end of the statement; the binary log needs this. */
int Session::use_without_rollback() {
  Session *announced = find_or_create(thd_);
  if (announced == nullptr) return HA_ERR_OUT_OF_MEM;
  if (int error = announced->use()) return error;
  teak_status status = transaction_ == nullptr ? begin() : TEAK_OK;
  detach_cursors();
  if (status == TEAK_OK) status = teak_transaction_begin_statement(transaction_);
  return status == TEAK_OK ? 0 : raise(thd_, status, "a transaction could not begin");
}

teak_status Session::write_done() {
  if (kind_ == Kind::Transactional) return TEAK_OK;
  detach_cursors();
  teak_transaction *transaction = release();
  choose_commit_sync(transaction);
  teak_status status = teak_transaction_commit(transaction);
  if (status != TEAK_OK) teak_transaction_rollback(transaction);
  return status;
}

int Session::use() {
  if (kind_ == Kind::WithoutRollback) return use_without_rollback();
  if (transaction_ == nullptr) {
    teak_status status = begin();
    if (status != TEAK_OK) return raise(thd_, status, "a transaction could not begin");
  }
  if (!in_statement_) {
    // The new statement may have a newer snapshot than the open cursors.
    detach_cursors();
    uint lock_timeout = session_lock_timeout(thd_);
    if (lock_timeout != lock_timeout_) {
      lock_timeout_ = lock_timeout;
      teak_transaction_set_lock_timeout(transaction_, lock_timeout);
    }
    const bool refuses_stale_writes = session_refuse_stale_writes(thd_);
    if (refuses_stale_writes != refuses_stale_writes_) {
      refuses_stale_writes_ = refuses_stale_writes;
      teak_transaction_set_snapshot_isolation(transaction_, refuses_stale_writes);
    }
    teak_status status = teak_transaction_begin_statement(transaction_);
    if (status != TEAK_OK) return raise(thd_, status, "a statement could not begin");
    in_statement_ = true;
    has_statement_mark_ = false;
    bulk_inserts_.begin_statement();
    has_discarded_load_ = false;
    // Statements of a stored procedure all have the start time of the CALL.
    statement_begin_ = thd_->spcont == nullptr ? thd_->start_utime : microsecond_interval_timer();
    // The beginning of a statement clears an interrupt, so check for an earlier KILL.
    if (thd_kill_level(thd_) != THD_IS_NOT_KILLED) teak_transaction_interrupt(transaction_);
  }
  trans_register_ha(thd_, false, engine_handlerton, 0);
  if (in_multi_statement_transaction(thd_)) trans_register_ha(thd_, true, engine_handlerton, 0);
  return 0;
}

int Session::take_snapshot() {
  if (transaction_ == nullptr) {
    teak_status status = begin();
    if (status != TEAK_OK) return raise(thd_, status, "a transaction could not begin");
  }
  if (thd_tx_isolation(thd_) == ISO_REPEATABLE_READ || thd_tx_isolation(thd_) == ISO_SERIALIZABLE) {
    teak_status status = teak_transaction_take_snapshot(transaction_);
    if (status != TEAK_OK) return raise(thd_, status, "a snapshot could not be taken");
  } else {
    push_warning_printf(thd_, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                        "TEAK: WITH CONSISTENT SNAPSHOT was ignored because this phrase can only be used with "
                        "REPEATABLE READ isolation level.");
  }
  trans_register_ha(thd_, true, engine_handlerton, 0);
  return 0;
}

teak_status Session::before_write(bool is_temporary) {
  writes_to_keep_ |= !is_temporary;
  if (kind_ == Kind::WithoutRollback || has_statement_mark_ || !in_multi_statement_transaction(thd_)) return TEAK_OK;
  teak_status status = teak_transaction_savepoint(transaction_, &statement_mark_);
  has_statement_mark_ = status == TEAK_OK;
  return status;
}

void Session::choose_commit_sync(teak_transaction *transaction) {
  const bool waits = session_commit_sync(thd_);
  if (waits == waits_for_disk_) return;
  waits_for_disk_ = waits;
  teak_transaction_set_commit_sync(transaction, waits);
}

/* The handler relies on calls of the server that are not documented to end loads. Without them rows would be lost. Returns
   the server's error, which has been raised, if the statement has a load that was not finished. */
int Session::refuse_unfinished_load() const {
  if (!has_discarded_load_ && !bulk_inserts_.is_loading()) return 0;
  my_printf_error(ER_ERROR_DURING_COMMIT, "TEAK: the server has not ended the insertion of many rows", MYF(0));
  return HA_ERR_GENERIC;
}

int Session::prepare(bool all) {
  if (int error = refuse_unfinished_load()) return error;
  if (!ends_transaction(all) || transaction_ == nullptr) return 0;
  detach_cursors();
  // Temporary tables do not survive the connection, so there is nothing to prepare.
  if (!writes_to_keep_) return 0;
  choose_commit_sync(transaction_);
  prepared_as_ = XidBytes(*thd_->get_xid());
  teak_status status = teak_transaction_prepare(transaction_, prepared_as_.slice());
  if (status != TEAK_OK) return raise(thd_, status, "PREPARE");
  is_prepared_ = true;
  return 0;
}

void Session::commit_ordered(bool all) {
  // A transaction that was not prepared has written only temporary tables, or nothing; commit() ends it.
  if (!ends_transaction(all) || !is_prepared_) return;
  // After a crash only the binary log shows which transactions were committed: MariaDB 10.11 reads its own log
  // (tc.log), but then rolls back every prepared transaction. Without a binary log, commit() therefore commits durably.
  if (!opt_bin_log) return;
  teak_transaction *transaction = release();
  if (transaction == nullptr) return;
  if (teak_transaction_commit_ordered(transaction) == TEAK_OK) {
    is_prepared_ = false;
    return;
  }
  sql_print_error("TEAK: a prepared transaction was not committed: %s", LastErrorText().c_str());
  std::lock_guard<std::mutex> guard(kill_mutex_);
  transaction_ = transaction;
}

void Session::note_end_of_statement() {
  const ulonglong end = microsecond_interval_timer();
  teak_engine_count_statement(engine, end > statement_begin_ ? end - statement_begin_ : 0);
}

int Session::commit(bool all) {
  const bool was_in_statement = in_statement_;
  int error = is_prepared_ ? 0 : refuse_unfinished_load();
  if (error != 0)
    (void)rollback_now(all);
  else
    error = commit_now(all);
  if (was_in_statement) note_end_of_statement();
  return error;
}

int Session::rollback(bool all) {
  const bool was_in_statement = in_statement_;
  int error = rollback_now(all);
  if (was_in_statement) note_end_of_statement();
  return error;
}

int Session::commit_now(bool all) {
  in_statement_ = false;
  has_statement_mark_ = false;
  if (!ends_transaction(all)) return 0;
  detach_cursors();
  const bool was_prepared = is_prepared_;
  is_prepared_ = false;
  teak_transaction *transaction = release();
  if (transaction == nullptr) {
    writes_.end();  // committed by commit_ordered()
    return 0;
  }
  choose_commit_sync(transaction);
  teak_status status = teak_transaction_commit_and_keep(transaction);
  int error = 0;
  if (status == TEAK_OK) {
    kept_ = transaction;
  } else {
    error = raise(thd_, status, "COMMIT");
    // The server has decided to commit a prepared transaction, so it must not be rolled back. It remains prepared until
    // its commit can be logged, at the latest by recovery.
    if (was_prepared) writes_.leave_to(prepared_as_.slice());
    was_prepared ? teak_transaction_detach(transaction) : teak_transaction_rollback(transaction);
  }
  writes_.end();
  return error;
}

int Session::rollback_now(bool all) {
  bool had_mark = has_statement_mark_;
  in_statement_ = has_discarded_load_ = false;
  has_statement_mark_ = false;
  if (transaction_ == nullptr) return 0;
  if (!ends_transaction(all)) {
    // Without a savepoint the statement has written nothing.
    if (!had_mark) return 0;
    teak_status status = teak_transaction_rollback_to_savepoint(transaction_, statement_mark_);
    return status == TEAK_OK ? 0 : raise(thd_, status, "ROLLBACK of a statement");
  }
  detach_cursors();
  const bool was_prepared = is_prepared_;
  is_prepared_ = false;
  // If the rollback cannot be logged, the transaction remains prepared, and any connection can end it.
  if (was_prepared) writes_.leave_to(prepared_as_.slice());
  teak_status status = teak_transaction_rollback(release());
  if (was_prepared && status == TEAK_OK) query_cache_use::ended_by_xid(prepared_as_.slice());
  writes_.end();
  return status == TEAK_OK ? 0 : raise(thd_, status, "ROLLBACK");
}

void Session::note_failed_wait() {
  if (transaction_ == nullptr) return;
  std::string text = describe_failed_wait(thd_, transaction_);
  if (text.empty()) return;
  // Resets the variable, so that it does not point to freed memory.
  set_session_last_lock_timeout(thd_, nullptr);
  last_lock_timeout_.swap(text);
  set_session_last_lock_timeout(thd_, &last_lock_timeout_[0]);
}

int Session::set_savepoint(uint64_t *mark) {
  if (transaction_ == nullptr) return HA_ERR_NO_SAVEPOINT;
  teak_status status = teak_transaction_savepoint(transaction_, mark);
  return status == TEAK_OK ? 0 : raise(thd_, status, "SAVEPOINT");
}

int Session::rollback_to_savepoint(uint64_t mark) {
  if (transaction_ == nullptr) return HA_ERR_NO_SAVEPOINT;
  // The rollback also ends the statement's own savepoint, which is newer than `mark`, except in a function or trigger:
  // there the savepoint of the calling statement is older.
  if (!thd_->in_sub_stmt) has_statement_mark_ = false;
  teak_status status = teak_transaction_rollback_to_savepoint(transaction_, mark);
  return status == TEAK_OK ? 0 : raise(thd_, status, "ROLLBACK TO SAVEPOINT");
}

void Session::interrupt() {
  std::lock_guard<std::mutex> guard(kill_mutex_);
  if (transaction_ != nullptr) teak_transaction_interrupt(transaction_);
  if (secondary_ != nullptr) teak_transaction_interrupt(secondary_);
}

Session::SecondaryTransaction::SecondaryTransaction(Session *session, teak_transaction *transaction)
    : session_(session) {
  std::lock_guard<std::mutex> guard(session_->kill_mutex_);
  session_->secondary_ = transaction;
  // An earlier KILL found no transaction to interrupt.
  if (thd_kill_level(session_->thd_) != THD_IS_NOT_KILLED) teak_transaction_interrupt(transaction);
}

Session::SecondaryTransaction::~SecondaryTransaction() {
  std::lock_guard<std::mutex> guard(session_->kill_mutex_);
  session_->secondary_ = nullptr;
}

teak_transaction *Session::release() {
  std::lock_guard<std::mutex> guard(kill_mutex_);
  teak_transaction *transaction = transaction_;
  transaction_ = nullptr;
  return transaction;
}

void Session::add(Cursor *cursor) {
  cursor->newer_ = nullptr;
  cursor->older_ = cursors_;
  if (cursors_ != nullptr) cursors_->newer_ = cursor;
  cursors_ = cursor;
}

void Session::remove(Cursor *cursor) {
  (cursor->newer_ != nullptr ? cursor->newer_->older_ : cursors_) = cursor->older_;
  if (cursor->older_ != nullptr) cursor->older_->newer_ = cursor->newer_;
  cursor->newer_ = cursor->older_ = nullptr;
}

void Session::detach_cursors() {
  while (cursors_ != nullptr) cursors_->detach();
}

}  // namespace teak
