/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* AutoIncrementCounter: the durable counter of a table's AUTO_INCREMENT values, shared by all its handlers. */

#ifndef TEAK_TABLE_AUTO_INCREMENT_COUNTER_H
#define TEAK_TABLE_AUTO_INCREMENT_COUNTER_H

#include "base/server_version.h"

#include <mutex>

#include "base/core.h"

namespace teak {

class AutoIncrementCounter {
 public:
  /* Counter 0 of an engine table is the next AUTO_INCREMENT value; 0 means that none was given yet. */
  static constexpr uint32_t NUMBER = 0;

  AutoIncrementCounter() = default;
  AutoIncrementCounter(const AutoIncrementCounter &) = delete;
  AutoIncrementCounter &operator=(const AutoIncrementCounter &) = delete;

  void init(teak_table *table) { table_ = table; }

  /* The value after the last one, at least 1. */
  teak_status next(ulonglong *value);
  teak_status set(ulonglong next);
  /* Reads the counter from the engine again: TRUNCATE has reset it. */
  void forget();

  /* Statements that have the counter locked, or wait for the lock: while there are any, no other statement moves it. The
     engine's lock decides which of them has it. */
  void add_locker();
  void remove_locker();
  teak_status lock(teak_transaction *transaction) { return teak_table_counter_lock(transaction, table_, NUMBER); }
  void unlock(teak_transaction *transaction) { teak_table_counter_unlock(transaction, table_, NUMBER); }

  /* MustLock: the counter was not moved, the caller has to lock it first. */
  enum class Result { Moved, MustLock };
  /* Reserves values first, first + step, ... that are all `offset` modulo `step`. `reserved` receives their number. */
  teak_status reserve(ulonglong offset, ulonglong step, ulonglong wanted, bool has_lock, ulonglong *first,
                      ulonglong *reserved, Result *result);
  /* A row was written with this value. */
  teak_status note(ulonglong value, bool has_lock, Result *result);

 private:
  teak_status advance(ulonglong next);

  teak_table *table_ = nullptr;
  std::mutex mutex_;    // guards the members below
  ulonglong next_ = 0;  // 0: not read yet
  uint lockers_ = 0;
};

}  // namespace teak

#endif
