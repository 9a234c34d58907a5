/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* TableStatistics: the answers to the server's queries about a table as a whole. The optimiser gets estimates from
   counts in index blocks and in memory; INFORMATION_SCHEMA gets exact sizes. Neither reads a data page, except
   when index statistics are sampled (statistics/index_statistics.h). */

#ifndef TEAK_HANDLER_TABLE_STATISTICS_H
#define TEAK_HANDLER_TABLE_STATISTICS_H

#include "base/server_version.h"

#include "table/open_table.h"

namespace teak {

class TableStatistics {
 public:
  explicit TableStatistics(OpenTable &open) : open_(open) {}
  TableStatistics(const TableStatistics &) = delete;
  TableStatistics &operator=(const TableStatistics &) = delete;

  /* handler::info(): fills handler::stats. `what`: HA_STATUS_ flags. */
  int refresh(uint what);
  ha_rows rows_in_range(uint key, const key_range *min, const key_range *max) const;

 private:
  bool use_recent_size();
  int refresh_size(uint what, bool is_for_plan);
  int refresh_index_sizes();
  void refresh_constants();
  int refresh_auto_increment();

  OpenTable &open_;
  /* When the optimiser last got the sizes, in microseconds as thd->start_utime; 0: others were returned since. */
  ulonglong refreshed_at_ = 0;
  uint64_t changes_ = 0;  // of the share, at that time
  uint uses_ = 0;         // since that time
};

}  // namespace teak

#endif
