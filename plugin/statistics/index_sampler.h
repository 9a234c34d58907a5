/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* IndexSampler: estimates how many entries of an index have equal values in the leading parts of its key.

   1. Distinct prefixes are counted by skipping from one to the next. If the index has few, the result is exact.
   2. Otherwise entries are chosen at places that are spread evenly over the number of entries. The engine's counts lead to a
      place: a key in the middle of a range of keys halves the range, until few entries remain, which are passed one by one.
   3. For each chosen entry, the engine estimates the number of entries with the same prefix. An entry in a group of m counts
      as 1/m of a distinct prefix, so the mean of 1/m is the number of distinct prefixes per entry, wherever groups are large.

   The places are in the order of multiples of the golden ratio: if the time ends early, those that were reached are spread
   evenly, too. */

#ifndef TEAK_STATISTICS_INDEX_SAMPLER_H
#define TEAK_STATISTICS_INDEX_SAMPLER_H

#include "base/server_version.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "format/key_codec.h"
#include "session/session.h"
#include "statistics/cancellation.h"

namespace teak {

using SampleClock = std::chrono::steady_clock;

struct SampleLimits {
  uint samples;                          // of an index
  SampleClock::time_point deadline;      // some entries are sampled in any case
  Cancellation *cancellation = nullptr;  // ends the sampling with TEAK_INTERRUPTED

  bool is_cancelled() const { return cancellation != nullptr && cancellation->is_cancelled(); }
  bool is_over() const { return is_cancelled() || SampleClock::now() >= deadline; }
};

/* The average number of entries with equal values in the first part of a key, in the first two parts, and so on. */
using Density = std::vector<double>;

class IndexSampler {
 public:
  IndexSampler(teak_table *table, uint32_t index) : table_(table), index_(index) {}
  ~IndexSampler();
  IndexSampler(const IndexSampler &) = delete;
  IndexSampler &operator=(const IndexSampler &) = delete;

  /* Reads in a separate transaction: statistics are needed outside of transactions too, and must not wait for locks. KILL of
     the statement of the THD interrupts the reads; nullptr: a background thread reads, and the cancellation does. */
  teak_status open(THD *thd, Cancellation *cancellation);

  /* Sets the first `parts` parts of the density. `rows`: the number of entries. */
  teak_status measure(const KeyCodec &codec, uint parts, uint64_t rows, const SampleLimits &limits, Density *density);

 private:
  teak_status count_prefixes(const KeyCodec &codec, uint parts, const SampleLimits &limits, uint64_t *distinct,
                             bool *whole);
  teak_status sample_groups(const KeyCodec &codec, uint first, uint parts, uint64_t rows, const SampleLimits &limits,
                            Density *density);
  teak_status find_ends();
  teak_status go_to(uint64_t place, const SampleLimits &limits, teak_row *row);
  teak_status group_size(teak_slice prefix, uint64_t *entries);
  teak_status entries_before(const std::string &key, uint64_t *entries);

  teak_table *table_;
  uint32_t index_;
  teak_transaction *transaction_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  std::optional<Session::SecondaryTransaction> secondary_;
  Cancellation *cancellation_ = nullptr;
  std::map<uint64_t, std::string> known_;  // keys, by the number of entries before them
};

}  // namespace teak

#endif
