/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Session: what Teak keeps for one connection. It owns the engine's transaction, knows where the running statement began
   (so that a failed statement is undone alone), and lists the cursors that must let go of a transaction before it ends.
   All but interrupt() is called by the connection's own thread. */

#ifndef TEAK_SESSION_SESSION_H
#define TEAK_SESSION_SESSION_H

#include "base/server_version.h"

#include <mutex>
#include <string>

#include "base/core.h"
#include "session/cursor.h"
#include "session/query_cache.h"

namespace teak {

class Session {
 public:
  /* The session of the connection; nullptr when it has none yet. */
  static Session *find(THD *thd);
  static Session *find_or_create(THD *thd);

  /* For one handler of a table without rollback (a sequence): transactions beside the connection's. Each write
     is committed by write_done(); each use, and a read after a write, sees what is committed by then. */
  static Session *create_without_rollback(THD *thd) { return new (std::nothrow) Session(thd, Kind::WithoutRollback); }

  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  THD *thd() const { return thd_; }
  teak_transaction *transaction() const { return transaction_; }
  /* Entries that the snapshot sees may not be of the rows that it sees: the transaction wrote over newer ones. */
  bool is_past_snapshot() const { return transaction_ != nullptr && teak_transaction_is_past_snapshot(transaction_); }
  teak_transaction *transaction_to_read() {
    if (transaction_ == nullptr && kind_ == Kind::WithoutRollback) use();
    return transaction_;
  }

  /* A statement uses a Teak table: begins a transaction when there is none, and announces it to the server.
     May be called several times in a statement. 0 or the server's error, which has been raised. */
  int use();

  /* The same with no statement around it: START TRANSACTION WITH CONSISTENT SNAPSHOT. */
  int take_snapshot();

  /* After a write: without_rollback() commits it, others do nothing. */
  teak_status write_done();

  /* Before each write. Before the first of a statement of a longer transaction it sets the mark that the statement's rollback
     returns to. */
  teak_status before_write(bool is_temporary);
  /* Before each write of a table whose results may be kept in the query cache. */
  void note_write(query_cache_use::SlotNumber slot) { writes_.enter(slot); }

  /* The server's commit and rollback hooks. `all`: of the transaction, else of the statement. */
  int commit(bool all);
  int rollback(bool all);

  /* Two-phase commit. The server calls prepare(), then perhaps commit_ordered() (from any thread, in the order of the binary
     log, and unable to fail), then commit() or rollback(). */
  int prepare(bool all);
  void commit_ordered(bool all);

  /* A wait of the transaction ended in a timeout or a deadlock: fills teak_last_lock_timeout. */
  void note_failed_wait();

  int set_savepoint(uint64_t *mark);
  int rollback_to_savepoint(uint64_t mark);
  bool holds_locks() const { return transaction_ != nullptr && teak_transaction_holds_locks(transaction_); }

  /* KILL, from any thread. */
  void interrupt();

  /* The key that refused a row last. The server asks for it after the error, and for a row that moves between partitions
     it asks another handler of the table than the one that refused. */
  void note_duplicate(uint key) { duplicate_key_ = key; }
  uint duplicate_key() const { return duplicate_key_; }

  /* A transaction beside the session's own that a KILL ends as well, while this lives. */
  class Errand {
   public:
    Errand(Session *session, teak_transaction *transaction);
    ~Errand();
    Errand(const Errand &) = delete;
    Errand &operator=(const Errand &) = delete;

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
  bool ends_transaction(bool all) const { return all || !in_transaction_of_many_statements(thd_); }
  teak_status begin();
  /* Takes the transaction out of KILL's reach, to end it. */
  teak_transaction *release();

  THD *const thd_;
  const Kind kind_;
  std::mutex kill_mutex_;  // guards the pointers against interrupt(); nothing else is locked under it
  teak_transaction *transaction_ = nullptr;
  teak_transaction *errand_ = nullptr;
  Cursor *cursors_ = nullptr;
  std::string last_lock_timeout_;  // what the variable points to
  uint64_t statement_mark_ = 0;
  uint lock_timeout_ = 0;
  uint duplicate_key_ = MAX_KEY;
  bool in_statement_ = false;
  bool has_statement_mark_ = false;
  bool is_prepared_ = false;
  query_cache_use::Writes writes_;
  std::string prepared_as_;      // while writes_ has any
  bool writes_to_keep_ = false;  // the transaction has written more than temporary tables
};

}  // namespace teak

#endif
