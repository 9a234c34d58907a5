/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* IndexStatistics: the average number of rows with equal values in the leading parts of each key (the server's
   rec_per_key). */

#ifndef TEAK_STATISTICS_INDEX_STATISTICS_H
#define TEAK_STATISTICS_INDEX_STATISTICS_H

#include "base/server_version.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "base/core.h"
#include "format/key_codec.h"

namespace teak {

class IndexStatistics {
 public:
  /* A key, by the server's number. */
  struct Index {
    const KeyCodec *codec;
    uint32_t number;  // index number in the engine
    bool unique, nullable;
  };

  /* Called once. The table and the codecs must outlive this object. `table_id` is the key under which statistics are
     stored; 0: they are not stored. */
  void init(teak_table *table, uint64_t table_id, std::vector<Index> indexes);

  /* Loads the stored statistics in the first call without `force`. Samples if there are none, or if the number of
     rows has changed much since they were sampled; with `force`, always samples, and more. Writes the results into
     the server's statistics, and stores them (those of a small table only with `force`). Waits for another sampling
     thread only if there are no statistics yet, or with `force`. */
  teak_status refresh(THD *thd, const TABLE *table, uint64_t rows, bool force);
  /* Writes the latest samples into the server's statistics. For a partitioned table, the last call, of any
     partition, determines the result. */
  void publish(const TABLE *table);

 private:
  /* One value per part. */
  using Density = std::vector<double>;

  uint keys() const { return static_cast<uint>(indexes_.size()); }
  teak_status sample(THD *thd, const Index &index, uint64_t rows, uint samples, Density *density);
  void write_into(const TABLE *table) const;
  std::string encode(const TABLE *table) const;
  bool decode(const TABLE *table, const std::string &bytes);

  teak_table *table_ = nullptr;
  uint64_t table_id_ = 0;
  std::vector<Index> indexes_;
  std::mutex mutex_;
  bool tried_store_ = false;
  std::vector<Density> densities_;
  std::atomic<uint64_t> rows_{0};
  std::atomic<bool> has_statistics_{false};
};

}  // namespace teak

#endif
