/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Costs: what reads cost, for the optimiser. In 10.11 the server's unit is one read of a page; its own constants, for example
   a fifth for the evaluation of a row, and InnoDB's costs do not depend on whether pages are in memory. So the cost of a
   read in memory is InnoDB's times the measured ratio of Teak's time to InnoDB's, and for what is not in memory, the
   measured time of reading and decoding it is added. In 11.8 the unit is a millisecond, and costs are the measured times
   (base/server_handler.h). The constants are in handler/cost_constants.h.

   The part of an index that is in memory is known from the bytes of its decoded blocks. It changes while a statement
   runs: the first look-up in each page misses with the present probability, later ones unless the index fits into half of
   the cache. This is charged to ranges, whose number of rows the server knows. In a join it multiplies the cost of one
   look-up by an estimate of the outer rows that ignores most conditions, so no misses are charged (decision record 30). */

#ifndef TEAK_HANDLER_COSTS_H
#define TEAK_HANDLER_COSTS_H

#include "base/server_handler.h"
#include "handler/cost_constants.h"

#include <vector>

#include "table/open_table.h"

namespace teak {

class Costs final : public ReadCosts {
 public:
  explicit Costs(OpenTable &open) : open_(open) {}
  Costs(const Costs &) = delete;
  Costs &operator=(const Costs &) = delete;

  /* Called when a statement begins: sizes are read again when they are needed. */
  void begin_statement() { statement_++; }

  /* handler::keys_to_use_for_scanning(): the server reads all rows in the order of one of these keys, at any cost, if GROUP
     BY or ORDER BY needs this order and the plan would otherwise be a scan. Secondary keys only if the rows are, or will
     be, in memory. */
  const key_map *keys_to_scan();
  bool has_rows(uint key) const override;

  double scan() override;
  double read(uint key, uint ranges, ha_rows rows) override;
  double lookup() override;
  double entries_not_in_memory(uint key, ha_rows rows) override;
  double scan_misses() override;
  double key_misses(uint key, ulong ranges, ha_rows rows) override;
  double range_row_misses(ha_rows rows) override;
  double row_misses_max() override { return misses_max(rows()); }
  double key_misses_max(uint key) override { return misses_max(of_key(key)); }

 private:
  struct Index {
    uint64_t statement = 0;  // in which the sizes were read
    double bytes = 0;        // of all entries, before compression
    double entries = 0;
    double page_bytes = cost::PAGE_BYTES;  // of a page before compression, on average
    double uncached = 0;                   // the part that is not in memory
    double missing = 0;                    // the part that will not be in memory after all pages were read
  };

  static double miss_ns(const Index &index, double lookups);
  static double scan_miss_ns(const Index &index, double part);
  static double part_of(const Index &index, ha_rows rows);
  static double misses_max(const Index &index);
  const Index &index(uint number);
  const Index &rows() { return index(0); }
  const Index &of_key(uint key);

  OpenTable &open_;
  uint64_t statement_ = 1;
  std::vector<Index> indexes_;
  key_map clustered_;  // the primary key and the clustering keys
};

/* For declare_read_times(). */
extern const ReadTimes READ_TIMES;

}  // namespace teak

#endif
