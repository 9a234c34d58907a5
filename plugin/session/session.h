/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Session: the state of one connection, or of one handler of a table without rollback. It owns the engine's
   transaction, the savepoint of the running statement (to roll back a failed statement but not its transaction), and
   the list of cursors to detach before the transaction ends. Everything except interrupt() and commit_ordered() is
   called by the connection's own thread. */

#ifndef TEAK_SESSION_SESSION_H
#define TEAK_SESSION_SESSION_H

#include "base/server_version.h"

#include <mutex>
#include <string>

#include "base/core.h"
#include "base/xid_bytes.h"
#include "session/bulk_insert_group.h"
#include "session/cursor.h"
#include "session/query_cache.h"

namespace teak {

class Session {
 public:
  /* The connection's session; nullptr if it has none yet. */
  static Session *find(THD *thd);
  static Session *find_or_create(THD *thd);

  /* For a handler of a table without rollback (a sequence): a transaction separate from the connection's. Each write
     is committed by write_done(); each use, and a read after a write, sees everything committed before. */
  static Session *create_without_rollback(THD *thd) { return new (std::nothrow) Session(thd, Kind::WithoutRollback); }

  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  THD *thd() const { return thd_; }
  teak_transaction *transaction() const { return transaction_; }
  /* Whether the transaction may have written rows that had changed after its snapshot. The entries of secondary indexes
     that the snapshot sees may then not match their rows. */
  bool is_past_snapshot() const { return transaction_ != nullptr && teak_transaction_is_past_snapshot(transaction_); }
  teak_transaction *transaction_to_read() {
    if (transaction_ == nullptr && kind_ == Kind::WithoutRollback) use();
    return transaction_;
  }

  /* Called when a statement uses a Teak table: begins a transaction if there is none, and registers it with the server.
     May be called several times in a statement. Returns 0, or the server's error, which has been raised. */
  int use();

  /* START TRANSACTION WITH CONSISTENT SNAPSHOT. */
  int take_snapshot();

  /* Called after a write: commits it in a session without rollback; otherwise does nothing. */
  teak_status write_done();

  /* Called before each write. In a multi-statement transaction, sets the savepoint for the statement's rollback
     before the statement's first write. */
  teak_status before_write(bool is_temporary);
  /* Called before each write of a table whose results may be in the query cache. */
  void note_write(query_cache_use::SlotNumber slot) { writes_.enter(slot); }

  /* The server's commit and rollback hooks. `all`: ends the transaction, otherwise only the statement. */
  int commit(bool all);
  int rollback(bool all);

  /* Two-phase commit. The server calls prepare(), then optionally commit_ordered() (from any thread, in the order of
     the binary log; it returns no error), then commit() or rollback(). */
  int prepare(bool all);
  void commit_ordered(bool all);

  /* Sets teak_last_lock_timeout after a lock wait that ended in a timeout or a deadlock. */
  void note_failed_wait();

  int set_savepoint(uint64_t *mark);
  int rollback_to_savepoint(uint64_t mark);
  bool holds_locks() const { return transaction_ != nullptr && teak_transaction_holds_locks(transaction_); }

  /* KILL, from any thread. */
  void interrupt();

  /* The bulk inserts of the current statement. */
  BulkInsertGroup &bulk_inserts() { return bulk_inserts_; }
  /* Called when the rows of a load are discarded: the statement must not be committed. */
  void note_discarded_load() { has_discarded_load_ = in_statement_; }

  /* Stores the number of the key of the last duplicate-key error. The server requests it after the error. It may do
     so through another handler than the one that reported the error, if an UPDATE moves a row between partitions. */
  void note_duplicate(uint key) { duplicate_key_ = key; }
  uint duplicate_key() const { return duplicate_key_; }

  /* Lets KILL interrupt a second transaction of the session while this object exists. */
  class SecondaryTransaction {
   public:
    SecondaryTransaction(Session *session, teak_transaction *transaction);
    ~SecondaryTransaction();
    SecondaryTransaction(const SecondaryTransaction &) = delete;
    SecondaryTransaction &operator=(const SecondaryTransaction &) = delete;

   private:
    Session *const session_;
  };

 private:
  friend class Cursor;
  enum class Kind { Transactional, WithoutRollback };

  Session(THD *thd, Kind kind) : thd_(thd), kind_(kind) {}
  int use_without_rollback();

  void add(Cursor *cursor);
  void remove(Cursor *cursor);
  void detach_cursors();
  int refuse_unfinished_load() const;
  int commit_now(bool all);
  int rollback_now(bool all);
  void note_end_of_statement();
  bool ends_transaction(bool all) const { return all || !in_multi_statement_transaction(thd_); }
  teak_status begin();
  /* Passes the session's setting to the transaction, if it differs from what the transaction has. */
  void choose_commit_sync(teak_transaction *transaction);
  /* Removes the transaction from this object, so that KILL no longer interrupts it, and returns it. */
  teak_transaction *release();

  THD *const thd_;
  const Kind kind_;
  std::mutex kill_mutex_;  // guards both transactions against interrupt(); no other lock is taken under it
  teak_transaction *transaction_ = nullptr;
  teak_transaction *secondary_ = nullptr;
  teak_transaction *kept_ = nullptr;  // has been committed; the next transaction uses its memory
  Cursor *cursors_ = nullptr;
  std::string last_lock_timeout_;  // the value of the session's teak_last_lock_timeout
  uint64_t statement_mark_ = 0;
  ulonglong statement_begin_ = 0;  // microseconds, as thd->start_utime
  uint lock_timeout_ = 0;
  /* Settings that the transaction has. */
  bool refuses_stale_writes_ = false, waits_for_disk_ = true;
  uint duplicate_key_ = MAX_KEY;
  bool in_statement_ = false;
  bool has_statement_mark_ = false;
  bool is_prepared_ = false;
  query_cache_use::Writes writes_;
  BulkInsertGroup bulk_inserts_;
  bool has_discarded_load_ = false;
  XidBytes prepared_as_;         // the XID, once the transaction is prepared
  bool writes_to_keep_ = false;  // the transaction has written to a table that is not temporary
};

}  // namespace teak

#endif
