/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* IndexStatistics: the average number of rows with equal values in the leading parts of each key (the server's
   rec_per_key).

   A statement samples a few entries of a table that has no statistics yet. ANALYZE TABLE and a background thread sample many;
   the thread does after a part of the rows has changed, if teak_auto_analyze is on. */

#ifndef TEAK_STATISTICS_INDEX_STATISTICS_H
#define TEAK_STATISTICS_INDEX_STATISTICS_H

#include "base/server_version.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/core.h"
#include "format/key_codec.h"
#include "statistics/background_sampling.h"
#include "statistics/index_sampler.h"

namespace teak {

class IndexStatistics final : private background_sampling::Task {
 public:
  /* A key, by the server's number. */
  struct Index {
    const KeyCodec *codec;
    uint32_t number;  // index number in the engine
    bool unique, nullable;
    std::string shape;
  };
  /* The name, columns and prefix lengths of a key. Stored with the statistics, because ALTER may replace a key. */
  static std::string shape_of(const KEY &key);

  /* Called once. The table and the codecs must outlive this object. `table_id` is the key under which statistics are
     stored; 0: they are not stored, and the background thread does not sample the table. */
  void init(teak_table *table, uint64_t table_id, std::vector<Index> indexes);

  /* Called when a statement plans: loads the stored statistics, or samples if there are none, or if the table was small and
     has grown. Requests the background thread if many rows have changed. Writes the latest results into the server's
     statistics. Waits for another statement only if there are no statistics yet. */
  teak_status refresh(THD *thd, const TABLE *table, uint64_t rows);
  /* ANALYZE TABLE: samples, and stores the results durably. */
  teak_status analyze(THD *thd, const TABLE *table, uint64_t rows);
  /* Writes the latest results into the server's statistics. For a partitioned table, the last call, of any partition,
     determines the result. */
  void publish(const TABLE *table);

  /* Adds to the number of rows that were written. */
  void note_changes(uint64_t rows) { written_rows_.fetch_add(rows, std::memory_order_relaxed); }

  /* Must be called before the table is closed or altered: ends the sampling by the background thread. */
  void stop_sampling() { background_sampling::withdraw(this); }
  /* Called before the table is truncated: does the same, and removes what is stored. */
  void forget();

 private:
  void run(Cancellation *cancellation) override;
  uint64_t table_id() const override { return table_id_; }

  void load();
  teak_status sample_few(THD *thd, uint64_t rows);
  teak_status sample_many(THD *thd, uint64_t rows, Cancellation *cancellation, bool durable);
  teak_status sample(THD *thd, uint64_t rows, const SampleLimits &limits, std::vector<Density> *densities) const;
  void install(std::vector<Density> densities, uint64_t rows, uint64_t written_before, bool store, bool durable);
  uint64_t difference(uint64_t rows) const;
  uint64_t changes(uint64_t rows) const;
  void request_sampling(uint64_t rows);
  bool is_typical(const TABLE *table) const;
  void write_into(const TABLE *table) const;
  std::string encode() const;
  bool decode(const std::string &bytes);

  teak_table *table_ = nullptr;
  uint64_t table_id_ = 0;
  std::vector<Index> indexes_;
  std::timed_mutex sampling_mutex_;  // held while a statement loads or samples; taken before mutex_
  bool tried_store_ = false;
  std::mutex mutex_;  // guards the densities
  std::vector<Density> densities_;
  std::atomic<uint64_t> written_rows_{0};
  std::atomic<uint64_t> rows_{0}, written_before_{0};  // when the table was sampled
  std::atomic<bool> has_statistics_{false};
  std::atomic<bool> has_few_samples_{false};
  std::atomic<bool> is_unpublished_{false};
  std::atomic<SampleClock::time_point> next_request_{SampleClock::time_point::min()};
};

}  // namespace teak

#endif
