/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* PrefetchWindow: decides how many of the rows that a statement will fetch are read ahead.

   1. While rows are in memory, none is read ahead, because finding their pages costs as much as a cached lookup.
   2. If at least half of the last rows had to be read from the disk, some rows ahead are prefetched: 4 at first, then
      twice as many each time, up to 32. Further ones follow when half of them have been fetched.
   3. The next scan or statement of the same handler continues as the last one ended. */

#ifndef TEAK_HANDLER_PREFETCH_WINDOW_H
#define TEAK_HANDLER_PREFETCH_WINDOW_H

#include <algorithm>

#include "base/core.h"

namespace teak {

class PrefetchWindow {
 public:
  /* Called when other rows will follow than those that were prefetched. */
  void restart() { ahead_ = 0; }

  /* Called before each row is fetched, or its entry is rejected. Returns how many rows, after those that were
     prefetched already, to prefetch now. */
  unsigned next() {
    if (ahead_ > 0) ahead_--;
    const bool decides = size_ == 0 ? passed_ == ROWS_MIN : ahead_ <= size_ / 2;
    if (!decides) {
      passed_++;
      return 0;
    }
    const bool is_slow = 2 * waited_ >= passed_;
    size_ = is_slow ? std::min(std::max(2 * size_, WINDOW_MIN), WINDOW_MAX) : 0;
    passed_ = 1;
    waited_ = 0;
    return size_ > ahead_ ? size_ - ahead_ : 0;
  }

  /* Notes how many rows were prefetched. */
  void add(unsigned rows) { ahead_ += rows; }

  /* Measures whether the fetch of a row reads from the disk. */
  class Fetch {
   public:
    explicit Fetch(PrefetchWindow *window) : window_(*window), before_(teak_thread_get_page_counts().read) {}
    ~Fetch() { window_.waited_ += teak_thread_get_page_counts().read != before_; }
    Fetch(const Fetch &) = delete;
    Fetch &operator=(const Fetch &) = delete;

   private:
    PrefetchWindow &window_;
    const uint64_t before_;
  };

 private:
  static constexpr unsigned ROWS_MIN = 2, WINDOW_MIN = 4, WINDOW_MAX = 32;

  unsigned size_ = 0;    // of the window; 0: rows are in memory
  unsigned ahead_ = 0;   // rows that were prefetched and not fetched
  unsigned passed_ = 0;  // rows since the last decision
  unsigned waited_ = 0;  // those of them that were read from the disk
};

}  // namespace teak

#endif
