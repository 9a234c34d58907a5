/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* InsertPace: limits how fast a statement inserts many rows, by the session's variables teak_bulk_load_rows_per_second and
   teak_bulk_load_bytes_per_second. The rows of all partitions of a table count together. */

#ifndef TEAK_SESSION_INSERT_PACE_H
#define TEAK_SESSION_INSERT_PACE_H

#include "base/server_version.h"

#include <chrono>
#include <cstdint>

namespace teak {

class InsertPace {
 public:
  /* Called when a statement begins. */
  void begin_statement() {
    rows_ = bytes_ = 0;
    has_limits_ = false;
  }
  /* Whether rows must be reported by add_row. */
  bool is_limited(THD *thd) {
    if (!has_limits_) read_limits(thd);
    return rows_per_second_ != 0 || bytes_per_second_ != 0;
  }
  /* Called after each row if is_limited(). Sleeps if the statement is ahead of its limits, until KILL. */
  void add_row(THD *thd, size_t bytes);

 private:
  using Clock = std::chrono::steady_clock;

  void read_limits(THD *thd);

  bool has_limits_ = false;
  ulonglong rows_per_second_ = 0, bytes_per_second_ = 0;
  Clock::time_point begun_;
  uint64_t rows_ = 0, bytes_ = 0;
};

}  // namespace teak

#endif
