/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* LockPolicy: how a statement locks the rows that it reads through one handler.

   A table that is written, or read FOR UPDATE, is read with exclusive row locks; LOCK IN SHARE MODE takes shared ones. All
   other statements read a snapshot, except that SERIALIZABLE transactions of several statements read with shared locks.

   A statement that the binary log keeps as text must have the same effect when it is replayed in commit order. It therefore
   reads everything with locks, which prevent changes until its transaction ends. READ COMMITTED and READ UNCOMMITTED do not
   lock that much: there the binary log must keep rows. */

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

  /* The lock that the server asks for before external_lock(). */
  void request(thr_lock_type type);
  /* external_lock(). `writes`: the statement writes the table. */
  void begin_statement(THD *thd, bool writes);
  /* start_stmt(): a statement within LOCK TABLES, a function or a trigger. */
  void begin_substatement(THD *thd, thr_lock_type type);
  void end_statement() { mode_ = TEAK_LOCK_NONE; }
  /* For a clone of a handler. The server locks a clone for reading only, and fetches the rows it finds through the
     original, so it must lock what the original would. */
  void inherit(const LockPolicy &original);
  /* Called before the first read: when the server locks the tables, it has not decided how the statement is logged. */
  void settle();

  teak_lock_mode mode() const { return mode_; }
  bool locking() const { return mode_ != TEAK_LOCK_NONE; }
  bool skip_locked() const { return skip_locked_; }
  Cursor::Options cursor_options() const { return {skip_locked_, retains_locks_}; }

  /* An UPDATE at READ COMMITTED reads a row that another transaction writes or has locked in its last committed version. It
     waits only for a row that matches, and reads that row again. */
  void set_semi_consistent(bool wanted);
  bool semi_consistent() const { return semi_consistent_; }

  /* Whether the statement may be replayed from its text, so that it must read the same rows again. */
  bool is_replayed() const;
  /* Whether a read must lock less than REPEATABLE READ does: rows that do not match may be unlocked. */
  bool may_unlock_rows() const { return locking() && thd_tx_isolation(open_.thd()) < ISO_REPEATABLE_READ; }

  /* Whether the binary log can keep a statement neither as text nor as rows. */
  static bool is_logging_impossible(THD *thd);

 private:
  void set_mode(teak_lock_mode mode);

  const OpenTable &open_;
  teak_lock_mode mode_ = TEAK_LOCK_NONE;
  teak_lock_mode min_mode_ = TEAK_LOCK_NONE;  // of a clone: the original's mode
  bool skip_locked_ = false;
  bool semi_consistent_ = false;
  bool retains_locks_ = false;            // rows that do not match are not unlocked, for the replay of the statement
  bool decides_writes_ = false;           // rows read from the table decide what the statement writes
  bool original_decides_writes_ = false;  // of a clone: the original's decides_writes_
  thr_lock_type requested_ = TL_UNLOCK;
};

}  // namespace teak

#endif
