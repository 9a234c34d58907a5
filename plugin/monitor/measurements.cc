/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See measurements.h. */

#include "monitor/measurements.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "base/engine.h"
#include "base/errors.h"

namespace teak {

std::atomic<uint64_t> group_by_pushdowns;
std::atomic<uint64_t> pages_passed_over;
std::atomic<uint64_t> pages_unread;
std::atomic<uint64_t> read_free_rows;
std::atomic<uint64_t> tables_analyzed;

namespace {

struct Oldest {
  uint64_t with_snapshot;  // start times, in microseconds since 1970
  uint64_t with_writes;
};

void compare_start(void *context, const teak_transaction_info *info) {
  auto *oldest = static_cast<Oldest *>(context);
  if (info->snapshot != 0) oldest->with_snapshot = std::min(oldest->with_snapshot, info->started_microseconds);
  const bool is_prepared = info->prepared_as.data != nullptr;
  if (info->write_ids != 0 || is_prepared)
    oldest->with_writes = std::min(oldest->with_writes, info->started_microseconds);
}

uint64_t seconds_since(uint64_t start, uint64_t now) { return start < now ? (now - start) / 1000000 : 0; }

}  // namespace

Measurements measure() {
  Measurements found = {};
  const uint64_t now = my_hrtime().val;
  Oldest oldest = {now, now};
  if (engine != nullptr && teak_transaction_list(engine, compare_start, &oldest) == TEAK_OK) {
    found.oldest_snapshot_seconds = seconds_since(oldest.with_snapshot, now);
    found.oldest_writer_seconds = seconds_since(oldest.with_writes, now);
  }
  struct statvfs disk;
  if (statvfs(mysql_real_data_home, &disk) == 0) {
    found.disk_bytes = static_cast<uint64_t>(disk.f_blocks) * disk.f_frsize;
    found.disk_bytes_free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  }
  found.corruption_errors = corruption_errors.load(std::memory_order_relaxed);
  found.group_by_pushdowns = group_by_pushdowns.load(std::memory_order_relaxed);
  found.pages_passed_over = pages_passed_over.load(std::memory_order_relaxed);
  found.pages_unread = pages_unread.load(std::memory_order_relaxed);
  found.read_free_rows = read_free_rows.load(std::memory_order_relaxed);
  found.tables_analyzed = tables_analyzed.load(std::memory_order_relaxed);
  return found;
}

}  // namespace teak
