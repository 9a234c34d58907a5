/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Refusal: why a statement inserts many rows one by one instead of loading them in bulk. Each reason has a status
   variable. */

#ifndef TEAK_MONITOR_REFUSALS_H
#define TEAK_MONITOR_REFUSALS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace teak {

enum class Refusal : uint8_t {
  None,
  Duplicates,   // REPLACE, IGNORE, ON DUPLICATE KEY UPDATE
  Triggers,     // the server does not announce many rows, and triggers or functions prevent a load
  Replication,  // the applier of a replica
  Definition,   // the server reads the table before it inserts a row, or the table is system-versioned
  Temporary,    // a temporary table or a sequence
  Altered,      // an ALTER TABLE is building keys
  Memory,       // other sorts use the memory
};

constexpr size_t REFUSALS = 7;  // without None

/* The number of statements, by reason. */
extern std::atomic<uint64_t> refusals[REFUSALS];
extern const char *const refusal_names[REFUSALS];

inline void count(Refusal refusal) {
  if (refusal != Refusal::None) refusals[static_cast<size_t>(refusal) - 1].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace teak

#endif
