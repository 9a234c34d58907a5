/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* LockPolicy: determines how a statement locks the rows that it reads through one handler.

   A table that the statement writes or reads FOR UPDATE is read with exclusive row locks; LOCK IN SHARE MODE takes
   shared locks. All other statements read a snapshot, except that SERIALIZABLE transactions of several statements
   read with shared locks.

   A statement that the binary log stores as text must have the same effect when it is replayed in commit order. So
   all reads on which its writes depend take locks, which prevent changes until its transaction ends. READ COMMITTED and
   READ UNCOMMITTED take fewer locks, so they require row-based logging. */

#ifndef TEAK_HANDLER_LOCK_POLICY_H
#define TEAK_HANDLER_LOCK_POLICY_H

#include "base/server_version.h"

#include "base/core.h"
#include "session/cursor.h"
#include "table/open_table.h"

namespace teak {

class LockPolicy {
 public:
  explicit LockPolicy(const OpenTable &open) : open_(open) {}
  LockPolicy(const LockPolicy &) = delete;
  LockPolicy &operator=(const LockPolicy &) = delete;

  /* Stores the lock type that the server requests before external_lock(). */
  void request(thr_lock_type type);
  /* external_lock(). `writes`: the statement writes the table. */
  void begin_statement(THD *thd, bool writes);
  /* start_stmt(): a statement within LOCK TABLES, a function or a trigger. */
  void begin_substatement(THD *thd, thr_lock_type type);
  void end_statement() { mode_ = TEAK_LOCK_NONE; }
  /* For a clone of a handler. The server locks a clone for reading only, but fetches through the original the rows that
     the clone has found. So the clone must take the same locks as the original. */
  void inherit(const LockPolicy &original);
  /* Raises the lock mode if the statement may be replayed from its text. Called before the first read, because the
     server decides how the statement is logged only after it has locked the tables. */
  void settle();

  teak_lock_mode mode() const { return mode_; }
  bool locking() const { return mode_ != TEAK_LOCK_NONE; }
  bool skip_locked() const { return skip_locked_; }
  Cursor::Options cursor_options() const { return {skip_locked_, retains_locks_}; }

  /* Semi-consistent read: if another transaction has written or locked a row, an UPDATE below REPEATABLE READ first
     reads the row's last committed version. If this version matches, it waits for the lock and reads the row again. */
  void set_semi_consistent(bool wanted);
  bool semi_consistent() const { return semi_consistent_; }

  /* Whether the statement may be replayed from its text and must then read the same rows. */
  bool is_replayed() const;
  /* Whether a locking read unlocks rows that do not match, as it does below REPEATABLE READ. */
  bool may_unlock_rows() const { return locking() && thd_tx_isolation(open_.thd()) < ISO_REPEATABLE_READ; }

  /* Whether the binary log cannot store the statement, neither as text nor as rows. */
  static bool is_logging_impossible(THD *thd);

 private:
  void set_mode(teak_lock_mode mode);

  const OpenTable &open_;
  teak_lock_mode mode_ = TEAK_LOCK_NONE;
  teak_lock_mode min_mode_ = TEAK_LOCK_NONE;  // of a clone: the original's mode
  bool skip_locked_ = false;
  bool semi_consistent_ = false;
  bool retains_locks_ = false;            // rows that do not match remain locked, so that a replay has the same effect
  bool decides_writes_ = false;           // the statement's writes depend on rows read from the table
  bool original_decides_writes_ = false;  // of a clone: the original's decides_writes_
  thr_lock_type requested_ = TL_UNLOCK;
};

}  // namespace teak

#endif
