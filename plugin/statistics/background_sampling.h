/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* background_sampling: a thread that samples tables one after another. It starts with the first request. A table waits at most
   once, so at most as many wait as are open. */

#ifndef TEAK_STATISTICS_BACKGROUND_SAMPLING_H
#define TEAK_STATISTICS_BACKGROUND_SAMPLING_H

#include <atomic>
#include <cstdint>

#include "statistics/cancellation.h"

namespace teak {

namespace background_sampling {

class Worker;

class Task {
 public:
  /* Called by the thread. Returns soon after it was cancelled. */
  virtual void run(Cancellation *cancellation) = 0;
  /* Not 0. */
  virtual uint64_t table_id() const = 0;

 protected:
  ~Task() = default;

 private:
  friend Worker;
  std::atomic<bool> waits_{false};
};

/* Adds the task to those that wait, unless it waits already. If the thread cannot be started, does nothing. */
void request(Task *task);
/* Must be called before the task is destroyed, or its table is changed: afterwards the thread does not use it, until the next
   request. Waits while it runs. */
void withdraw(Task *task);
/* As withdraw(), for the tasks of a table whose partition is dropped while it is open. */
void withdraw_table(uint64_t table_id);
/* Must be called before the engine is closed. */
void stop();

}  // namespace background_sampling

}  // namespace teak

#endif
