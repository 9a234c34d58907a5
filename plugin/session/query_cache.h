/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Determines which results of Teak tables the server's query cache may store and use. The server invalidates a
   table's results when a statement has changed the table, which may be long before the commit. So the server asks the
   engine before it stores a result and before it uses one.

   Every table has a slot, chosen by its name (two tables may share one). A slot stores the number of transactions that
   are in it, the number of changes so far, and the newest commit at the last change.

   1. A transaction enters a table's slot before it first writes the table.
   2. When it has ended, committed or not, it stores the newest commit in its slots, counts a change, and leaves. A prepared
      transaction without a connection leaves at XA COMMIT or XA ROLLBACK. DROP, RENAME, TRUNCATE, CREATE and ALTER in
      place count a change.
   3. A result may be stored if no transaction is in the slot and the reader's snapshot, if it has one, is not older than the
      slot's newest commit. It is stored with the number of changes.
   4. It may be used, except under SERIALIZABLE, if no transaction is in the slot and the number of changes is the
      same. In a multi-statement transaction the snapshot is taken first, and must not be older than the slot's newest
      commit.

   So the table did not change between the read of the result and its use, and the result matches the reader's
   snapshot. Order of the atomic accesses: an ending transaction updates the newest commit, then the changes, then
   leaves; a check reads them in the opposite order. So a check that sees an empty slot and a number of changes also
   sees the corresponding commits.

   Transactions do not enter slots before the query cache is used for the first time. Transactions that began earlier
   may have written without entering a slot, so no result is permitted before all of them have ended, including those
   that recovery found prepared. */

#ifndef TEAK_SESSION_QUERY_CACHE_H
#define TEAK_SESSION_QUERY_CACHE_H

#include "base/server_version.h"

#include <atomic>
#include <bitset>
#include <string_view>
#include <vector>

#include "base/core.h"

namespace teak::query_cache_use {

constexpr size_t SLOTS = 1024;
using SlotNumber = uint16_t;

SlotNumber slot_of(std::string_view path);

extern std::atomic<bool> counts_writes;

/* Whether transactions enter slots. Relaxed is sufficient: a transaction that begins after the flag was set acquires
   a lock that the setting thread has released. */
inline bool is_counting() { return counts_writes.load(std::memory_order_relaxed); }

void begin_counting();

/* Invalidates all stored results. Called before the engine is closed. */
void forget_all();

/* Called before a statement begins a transaction. */
inline void notice_use() {
  if (!is_counting() && query_cache_in_use()) begin_counting();
}

/* Called when the definition of the table, or all its rows, have changed. */
void table_changed(const char *path);

/* The slots that a transaction has entered. */
class Writes {
 public:
  Writes() = default;
  Writes(const Writes &) = delete;
  Writes &operator=(const Writes &) = delete;

  bool any() const { return !slots_.empty(); }
  void enter(SlotNumber slot) {
    if (!is_in_.test(slot)) enter_new(slot);
  }
  /* The transaction has ended. */
  void end() {
    if (any()) leave_all();
  }
  /* Called before a prepared transaction is detached from its connection: it remains in its slots until
     ended_by_xid(). If memory runs out, it remains in them until the server ends; no cached results of the slots'
     tables are used then. */
  void leave_to(teak_slice xid);

 private:
  void enter_new(SlotNumber slot);
  void leave_all();

  std::vector<SlotNumber> slots_;
  std::bitset<SLOTS> is_in_;
};

/* Called when a prepared transaction has ended for which leave_to() was called. */
void ended_by_xid(teak_slice xid);

/* Whether the result that a statement will compute may be stored; if so, `data` receives the argument for
   still_valid(). */
bool may_keep(const teak_transaction *reader, SlotNumber slot, ulonglong *data);

/* Callback of the server: whether it may use a stored result. If not, and `data` was changed, the server removes the
   table's results. */
my_bool still_valid(THD *thd, const char *path, uint path_bytes, ulonglong *data);

}  // namespace teak::query_cache_use

#endif
