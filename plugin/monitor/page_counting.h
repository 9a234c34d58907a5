/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* PageCounting: adds the pages that a call has read to the counts in r_engine_stats of ANALYZE FORMAT=JSON and in
   the slow query log with log_slow_verbosity=engine. Reads of memtables and writes of pages are not
   counted. */

#ifndef TEAK_MONITOR_PAGE_COUNTING_H
#define TEAK_MONITOR_PAGE_COUNTING_H

#include "base/core.h"

class ha_handler_stats;

namespace teak {

class PageCounting {
 public:
  /* nullptr: no counting. */
  explicit PageCounting(ha_handler_stats *statistics) : page_statistics_(statistics) {
    if (page_statistics_ != nullptr) begin();
  }
  ~PageCounting() {
    if (page_statistics_ != nullptr) end();
  }
  PageCounting(const PageCounting &) = delete;
  PageCounting &operator=(const PageCounting &) = delete;

 private:
  void begin();
  void end();

  ha_handler_stats *const page_statistics_;
  teak_page_counts before_;
  unsigned long long began_;
};

}  // namespace teak

#endif
