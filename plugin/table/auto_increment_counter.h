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
  /* Counter 0 of an engine table contains the next AUTO_INCREMENT value, or 0 if no value was assigned yet. */
  static constexpr uint32_t NUMBER = 0;

  AutoIncrementCounter() = default;
  AutoIncrementCounter(const AutoIncrementCounter &) = delete;
  AutoIncrementCounter &operator=(const AutoIncrementCounter &) = delete;

  void init(teak_table *table) { table_ = table; }

  /* The next value to assign, at least 1. */
  teak_status next(ulonglong *value);
  teak_status set(ulonglong next);
  /* Called after TRUNCATE has reset the counter in the engine: the next call reads it again. */
  void forget();

  /* Counts statements that have locked the counter or wait for its lock. While there are any, other statements must
     lock the counter before they advance it. The lock itself is in the engine. */
  void add_locker();
  void remove_locker();
  teak_status lock(teak_transaction *transaction) { return teak_table_counter_lock(transaction, table_, NUMBER); }
  void unlock(teak_transaction *transaction) { teak_table_counter_unlock(transaction, table_, NUMBER); }

  /* MustLock: the counter was not advanced; the caller must lock it first. */
  enum class Result { Moved, MustLock };
  /* Reserves up to `wanted` values first, first + step, ..., which are equal to `offset` modulo `step`. `reserved`
     receives their number; 0: no value is left. */
  teak_status reserve(ulonglong offset, ulonglong step, ulonglong wanted, bool has_lock, ulonglong *first,
                      ulonglong *reserved, Result *result);
  /* Advances the counter past the value of a written row, unless it is already higher. */
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
