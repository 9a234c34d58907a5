/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What the server's query cache may keep of Teak tables, and give out. The server drops what it keeps of a table when a
   statement has changed it, which may be long before the commit; so it asks us, before it keeps a result and before it
   gives one out.

   Every table has a slot (by its name; two may share one) with the number of transactions that have written it and have not
   ended, the number of changes so far, and the newest commit at the last of them.

   1. A transaction enters a table's slot before its first write of it.
   2. When it has ended, committed or not, it notes the newest commit in its slots, counts a change, and leaves. One that is
      prepared and loses its connection stays, until XA COMMIT or XA ROLLBACK. DROP, RENAME, TRUNCATE and CREATE count a change.
   3. A result may be kept if nobody is in the slot and the reader's snapshot, if it has one, is not older than the slot's
      newest commit. It is kept with the count of changes.
   4. It is given out if nobody is in the slot and the count is the same. Within a transaction of several statements the
      snapshot is taken first, and must not be older than the slot's newest commit either.

   So the result's table was the same from before it was read until it is given out, and what the reader's snapshot shows.
   The order of the atomic accesses: who ends raises the newest commit, then the changes, then leaves; who looks reads them the
   other way round. So who finds the slot empty and a count of changes also finds the commits that made it.

   Nothing of this is done before the query cache is in use for the first time. Transactions that began before that may
   have written without entering, so nothing is permitted before all of them have ended, found prepared at the start ones
   included. */

#ifndef TEAK_SESSION_QUERY_CACHE_H
#define TEAK_SESSION_QUERY_CACHE_H

#include "base/server_version.h"

#include <atomic>
#include <bitset>
#include <string>
#include <vector>

#include "base/core.h"

namespace teak::query_cache_use {

constexpr size_t SLOTS = 1024;
using SlotNumber = uint16_t;

SlotNumber slot_of(const char *path);

extern std::atomic<bool> counts_writes;

/* Whether transactions enter slots. Relaxed: whoever began after it was set has taken a lock since that its setter took
   before. */
inline bool is_counting() { return counts_writes.load(std::memory_order_relaxed); }

void begin_counting();

/* The engine is about to close. What the server still keeps is not given out again. */
void forget_all();

/* Before a statement begins a transaction. */
inline void notice_use() {
  if (!is_counting() && query_cache_in_use()) begin_counting();
}

/* The definition, or all rows at once, of the table at a path have changed. */
void table_changed(const char *path);

/* The slots that one transaction is in. */
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
  /* The transaction is prepared and about to be left to whoever knows its name. */
  void leave_to(const std::string &xid);

 private:
  void enter_new(SlotNumber slot);
  void leave_all();

  std::vector<SlotNumber> slots_;
  std::bitset<SLOTS> is_in_;
};

/* A prepared transaction that was left to whoever knows its name has ended. */
void ended_by_xid(const std::string &xid);

/* Whether the result that a statement is about to compute may be kept: `data` then is what still_valid() wants. */
bool may_keep(const teak_transaction *reader, SlotNumber slot, ulonglong *data);

/* The server's callback. False with `data` changed: the result is not valid any more. */
my_bool still_valid(THD *thd, const char *path, uint path_bytes, ulonglong *data);

}  // namespace teak::query_cache_use

#endif
