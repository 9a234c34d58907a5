/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The virtual functions of the server's handler that differ between its series, in terms of functions that do not: the
   costs of reads, and estimates for ranges.

   10.11 asks for the whole cost of a read, in page reads. 11.8 computes the cost of a read in memory itself, in
   milliseconds, from the constants of the engine (declare_read_times) and numbers of rows; the engine adds the I/O, in
   units whose cost is the constant disk_read_cost: Teak's unit is a miss, which is the look-up of a row in a page of mean
   size that is not in memory. */

#ifndef TEAK_BASE_SERVER_HANDLER_H
#define TEAK_BASE_SERVER_HANDLER_H

#include "base/server_version.h"

#include <algorithm>

namespace teak {

/* What an engine knows about the costs of its reads. */
class ReadCosts {
 public:
  virtual ~ReadCosts() = default;

  /* Whether the entries of a key contain the rows. */
  virtual bool has_rows(uint key) const = 0;

  /* ---- for 10.11, in page reads ---- */
  /* A scan of all rows, rows by a key, a row by a unique key, and what is added to the server's cost of a key's entries. */
  virtual double scan() = 0;
  virtual double read(uint key, uint ranges, ha_rows rows) = 0;
  virtual double lookup() = 0;
  virtual double entries_not_in_memory(uint key, ha_rows rows) = 0;

  /* ---- for 11.8, in misses ---- */
  /* Those of a scan of all rows, of a key's entries (or of rows by a clustering key) in some ranges, and of look-ups of
     rows in a range. */
  virtual double scan_misses() = 0;
  virtual double key_misses(uint key, ulong ranges, ha_rows rows) = 0;
  virtual double range_row_misses(ha_rows rows) = 0;
  /* What reads of all rows, or of all of a key's entries, miss at most, however often they are repeated; infinite if not
     all of them can remain in memory. */
  virtual double row_misses_max() = 0;
  virtual double key_misses_max(uint key) = 0;
};

/* Times of reads in memory, including the copy to the server's record, and of a miss, in milliseconds. */
struct ReadTimes {
  double scanned_row, looked_up_row;
  double first_entry, next_entry;  // of a range of a key
  double miss;
};

/* Declares the engine's constants for costs; 10.11 has none. */
#if TEAK_SERVER_11
template <const ReadTimes &times> void declare_read_times(handlerton *hton) {
  hton->update_optimizer_costs = [](OPTIMIZER_COSTS *costs) {
    costs->row_next_find_cost = times.scanned_row - costs->row_copy_cost;
    costs->row_lookup_cost = times.looked_up_row - costs->row_copy_cost;
    costs->key_next_find_cost = times.next_entry - costs->key_copy_cost;
    costs->key_lookup_cost = times.first_entry - costs->key_copy_cost;
    costs->disk_read_cost = times.miss;
    costs->disk_read_ratio = 1;  // only reads that miss are counted
  };
}
#else
template <const ReadTimes &times> void declare_read_times(handlerton *) {}
#endif

class ServerHandler : public handler {
 public:
  ServerHandler(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}

 protected:
  virtual ReadCosts &read_costs() = 0;
  /* handler::multi_range_read_info_const(): the rows in some ranges of a key, and their cost; or HA_POS_ERROR. */
  struct Ranges {
    uint key;
    RANGE_SEQ_IF *functions;
    void *parameter;
    uint count;
    ha_rows rows_max;
  };
  virtual ha_rows estimate_ranges(const Ranges &ranges, uint *buffer_bytes, uint *mode, Cost_estimate *cost) = 0;
  /* The server's own estimate. */
  ha_rows server_estimate(DsMrr_impl *implementation, const Ranges &ranges, uint *buffer_bytes, uint *mode,
                          Cost_estimate *cost);

#if TEAK_SERVER_11
 public:
  ulonglong row_blocks() override { return blocks(read_costs().row_misses_max()); }
  ulonglong index_blocks(uint key, uint, ha_rows) override { return blocks(read_costs().key_misses_max(key)); }
  ha_rows multi_range_read_info_const(uint key, RANGE_SEQ_IF *functions, void *parameter, uint count,
                                      uint *buffer_bytes, uint *mode, ha_rows rows_max, Cost_estimate *cost) final {
    return estimate_ranges({key, functions, parameter, count, rows_max}, buffer_bytes, mode, cost);
  }

 protected:
  IO_AND_CPU_COST scan_time() override { return {read_costs().scan_misses(), 0}; }
  /* Also called for each row of an outer table, so without misses (handler/costs.h). */
  IO_AND_CPU_COST rnd_pos_time(ha_rows) override { return {0, 0}; }
  IO_AND_CPU_COST keyread_time(uint key, ulong ranges, ha_rows rows, ulonglong) override {
    return {read_costs().key_misses(key, ranges, rows), 0};
  }
  IO_AND_CPU_COST key_scan_time(uint key, ha_rows rows) override;

 private:
  static ulonglong blocks(double misses) {
    return misses < 1e15 ? static_cast<ulonglong>(misses) + 1 : static_cast<ulonglong>(LONGLONG_MAX);
  }
#else
 public:
  /* 11.8 names the type by the algorithm of the key. */
  const char *index_type(uint) override { return "BTREE"; }
  double scan_time() override { return read_costs().scan(); }
  double read_time(uint index, uint ranges, ha_rows rows) override { return read_costs().read(index, ranges, rows); }
  double keyread_time(uint index, uint ranges, ha_rows rows) override {
    // The server passes what records() returned.
    if (rows == HA_POS_ERROR) rows = stats.records;
    return handler::keyread_time(index, ranges, rows) + read_costs().entries_not_in_memory(index, rows);
  }
  double avg_io_cost() override { return read_costs().lookup(); }
  ha_rows multi_range_read_info_const(uint key, RANGE_SEQ_IF *functions, void *parameter, uint count,
                                      uint *buffer_bytes, uint *mode, Cost_estimate *cost) final {
    return estimate_ranges({key, functions, parameter, count, HA_POS_ERROR}, buffer_bytes, mode, cost);
  }
#endif
};

#if TEAK_SERVER_11
inline ha_rows ServerHandler::server_estimate(DsMrr_impl *implementation, const Ranges &ranges, uint *buffer_bytes,
                                              uint *mode, Cost_estimate *cost) {
  const ha_rows rows = implementation->dsmrr_info_const(ranges.key, ranges.functions, ranges.parameter, ranges.count,
                                                        buffer_bytes, mode, ranges.rows_max, cost);
  if (rows == HA_POS_ERROR || (*mode & HA_MRR_INDEX_ONLY) || is_clustering_key(ranges.key)) return rows;
  if (read_costs().has_rows(ranges.key)) {
    // The server has added a look-up of each row.
    cost->index_cost = ha_keyread_clustered_time(ranges.key, std::max(ranges.count, 1U), rows, 0);
    cost->row_cost = {0, 0};
    cost->copy_cost = rows2double(rows) * ROW_COPY_COST;
    return rows;
  }
  cost->row_cost.io += read_costs().range_row_misses(rows);
  if (ranges.rows_max < rows) cost->limit_cost += read_costs().range_row_misses(ranges.rows_max) * cost->avg_io_cost;
  return rows;
}

/* The server counts entries, whatever they contain. */
inline IO_AND_CPU_COST ServerHandler::key_scan_time(uint key, ha_rows rows) {
  IO_AND_CPU_COST cost = keyread_time(key, 1, rows, 0);
  const double wide = ROW_NEXT_FIND_COST + ROW_COPY_COST - KEY_NEXT_FIND_COST - KEY_COPY_COST;
  if (read_costs().has_rows(key) && wide > 0) cost.cpu += rows2double(rows) * wide;
  return cost;
}
#else
inline ha_rows ServerHandler::server_estimate(DsMrr_impl *implementation, const Ranges &ranges, uint *buffer_bytes,
                                              uint *mode, Cost_estimate *cost) {
  const ha_rows rows = implementation->dsmrr_info_const(ranges.key, ranges.functions, ranges.parameter, ranges.count,
                                                        buffer_bytes, mode, cost);
  // The server took the cost of a row for the cost of a block of entries, which keyread_time() contains.
  cost->idx_avg_io_cost = 1.0;
  return rows;
}
#endif

}  // namespace teak

#endif
