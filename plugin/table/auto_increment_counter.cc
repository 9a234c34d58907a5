/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See auto_increment_counter.h. */

#include "table/auto_increment_counter.h"

#include <algorithm>

namespace teak {

namespace {

/* The smallest value >= `next` of the series offset, offset + step, ..., as the server computes it; ULONGLONG_MAX on
   overflow. */
ulonglong next_of_series(ulonglong next, ulonglong offset, ulonglong step) {
  if (step <= 1) return next;
  const ulonglong value = (next - 1 + step - offset) / step * step + offset;
  return value < next ? ULONGLONG_MAX : value;
}

}  // namespace

teak_status AutoIncrementCounter::next(ulonglong *value) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (next_ == 0) {
    uint64_t stored = 0;
    const teak_status status = teak_table_counter_get(table_, NUMBER, &stored);
    if (status != TEAK_OK) return status;
    next_ = stored == 0 ? 1 : stored;
  }
  *value = next_;
  return TEAK_OK;
}

teak_status AutoIncrementCounter::advance(ulonglong next) {
  const teak_status status = teak_table_counter_advance(table_, NUMBER, next);
  if (status == TEAK_OK) next_ = next;
  return status;
}

teak_status AutoIncrementCounter::reserve(ulonglong offset, ulonglong step, ulonglong wanted, bool has_lock,
                                          ulonglong *first, ulonglong *reserved, Result *result) {
  ulonglong next;
  const teak_status status = this->next(&next);  // reads next_ from the engine if necessary
  if (status != TEAK_OK) return status;
  if (step == 0) step = 1;

  std::lock_guard<std::mutex> guard(mutex_);
  *result = has_lock || lockers_ == 0 ? Result::Moved : Result::MustLock;
  if (*result == Result::MustLock) return TEAK_OK;
  *first = next_of_series(next_, offset, step);
  const ulonglong available = (ULONGLONG_MAX - *first) / step;
  *reserved = std::min(std::max(wanted, 1ULL), available);
  if (*reserved == 0) return TEAK_OK;  // the server detects that the first value is beyond the column's range
  // Made durable before the rows, so that after a crash no value that may have been used is assigned again.
  return advance(*first + (*reserved - 1) * step + 1);
}

teak_status AutoIncrementCounter::note(ulonglong value, bool has_lock, Result *result) {
  *result = Result::Moved;
  ulonglong next;
  const teak_status status = this->next(&next);
  if (status != TEAK_OK || value < next) return status;
  std::lock_guard<std::mutex> guard(mutex_);
  if (value < next_) return TEAK_OK;
  if (!has_lock && lockers_ != 0) {
    *result = Result::MustLock;
    return TEAK_OK;
  }
  return advance(value == ULONGLONG_MAX ? value : value + 1);
}

teak_status AutoIncrementCounter::set(ulonglong next) {
  std::lock_guard<std::mutex> guard(mutex_);
  const teak_status status = teak_table_counter_set(table_, NUMBER, next);
  if (status == TEAK_OK) next_ = next;
  return status;
}

void AutoIncrementCounter::forget() {
  std::lock_guard<std::mutex> guard(mutex_);
  next_ = 0;
}

void AutoIncrementCounter::add_locker() {
  std::lock_guard<std::mutex> guard(mutex_);
  lockers_++;
}

void AutoIncrementCounter::remove_locker() {
  std::lock_guard<std::mutex> guard(mutex_);
  lockers_--;
}

}  // namespace teak
