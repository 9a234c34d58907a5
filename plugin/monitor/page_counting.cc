/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See page_counting.h. */

#include "monitor/page_counting.h"

#include "base/server_version.h"

namespace teak {

/* In the server's unit of measurement, see sql_analyze_stmt.h. */
static ulonglong now() {
#if (MY_TIMER_ROUTINE_CYCLES)
  return my_timer_cycles();
#else
  return my_timer_microseconds();
#endif
}

void PageCounting::begin() {
  before_ = teak_thread_get_page_counts();
  began_ = now();
}

void PageCounting::end() {
  const teak_page_counts after = teak_thread_get_page_counts();
  page_statistics_->pages_accessed += after.accessed - before_.accessed;
  if (after.read == before_.read) return;
  page_statistics_->pages_read_count += after.read - before_.read;
  // Counts the time of the whole call, which consists mostly of page reads.
  page_statistics_->pages_read_time += now() - began_;
}

}  // namespace teak
