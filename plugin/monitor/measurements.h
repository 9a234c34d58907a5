/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Values of status variables that the plugin measures itself, when the variables are shown. */

#ifndef TEAK_MONITOR_MEASUREMENTS_H
#define TEAK_MONITOR_MEASUREMENTS_H

#include "base/server_version.h"

#include <atomic>
#include <cstdint>

namespace teak {

/* Scans whose aggregates the engine has computed. */
extern std::atomic<uint64_t> group_by_pushdowns;
/* Pages over which scans have passed, because no row matched the condition. */
extern std::atomic<uint64_t> pages_passed_over;
/* Pages that scans and aggregates have not read, because their minima and maxima excluded the condition. */
extern std::atomic<uint64_t> pages_unread;
extern std::atomic<uint64_t> read_free_rows;
/* Tables that the background thread has sampled. */
extern std::atomic<uint64_t> tables_analyzed;

struct Measurements {
  // Seconds since the start of the oldest transaction that has a snapshot now; 0 if there is none.
  uint64_t oldest_snapshot_seconds;
  // The same of the oldest transaction that has written, prepared ones included.
  uint64_t oldest_writer_seconds;
  // Size of the file system of the data directory, and the bytes in it that the server may still use; 0 if they cannot
  // be read.
  uint64_t disk_bytes;
  uint64_t disk_bytes_free;
  // Calls of the engine that failed because of damaged data.
  uint64_t corruption_errors;
  uint64_t group_by_pushdowns;
  uint64_t pages_passed_over;
  uint64_t pages_unread;
  uint64_t read_free_rows;
  uint64_t tables_analyzed;
};

Measurements measure();

}  // namespace teak

#endif
