/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* IndexStatistics: how many rows of a table share a value in the leading parts of each key (the server's rec_per_key). */

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
  /* A key of the server's, by its number there. */
  struct Index {
    const KeyCodec *codec;
    uint32_t number;  // in the engine
    bool unique, nullable;
  };

  /* Called once. The table and the codecs must outlive it. `table_id`: what the figures are kept under. */
  void init(teak_table *table, uint64_t table_id, std::vector<Index> indexes);

  /* Takes up what was kept when the table was open last. Samples when there is nothing, or the table has changed much
     since; `force`: in any case, and more. What is sampled is kept, and written into the server's figures. Never waits for
     another sampler unless there is nothing yet. */
  teak_status refresh(THD *thd, const TABLE *table, uint64_t rows, bool force);
  /* Writes what was sampled last into the server's figures: of several partitions the last one called counts. */
  void publish(const TABLE *table);

 private:
  /* One figure per part. */
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
  bool asked_store_ = false;
  std::vector<Density> densities_;
  std::atomic<uint64_t> rows_{0};
  std::atomic<bool> has_statistics_{false};
};

}  // namespace teak

#endif
