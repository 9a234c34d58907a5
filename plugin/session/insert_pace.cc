/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See insert_pace.h. */

#include "session/insert_pace.h"

#include <algorithm>

#include "monitor/variables.h"

namespace teak {

namespace {

using Seconds = std::chrono::duration<double>;

// Shorter sleeps would be inexact, and longer ones would make KILL wait.
constexpr Seconds SLEEP_MIN(0.005), SLEEP_MAX(0.05);

Seconds time_for(uint64_t amount, ulonglong per_second) {
  return Seconds(per_second == 0 ? 0 : static_cast<double>(amount) / static_cast<double>(per_second));
}

}  // namespace

void InsertPace::read_limits(THD *thd) {
  rows_per_second_ = session_bulk_load_rows_per_second(thd);
  bytes_per_second_ = session_bulk_load_bytes_per_second(thd);
  has_limits_ = true;
}

void InsertPace::add_row(THD *thd, size_t bytes) {
  if (rows_ == 0) begun_ = Clock::now();
  rows_++;
  bytes_ += bytes;
  const Seconds due = std::max(time_for(rows_, rows_per_second_), time_for(bytes_, bytes_per_second_));
  for (;;) {
    const Seconds ahead = due - (Clock::now() - begun_);
    if (ahead < SLEEP_MIN || thd_kill_level(thd) != THD_IS_NOT_KILLED) return;
    my_sleep(static_cast<ulong>(std::min(ahead, SLEEP_MAX).count() * 1e6));
  }
}

}  // namespace teak
