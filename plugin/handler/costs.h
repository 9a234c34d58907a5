/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Costs: what reads cost, for the optimiser. The server's unit is one read of a page; its own constants, for example a
   fifth for the evaluation of a row, and InnoDB's costs do not depend on whether pages are in memory. So the cost of a
   read in memory is InnoDB's times the measured ratio of Teak's time to InnoDB's, and for what is not in memory, the
   measured time of reading and decoding it is added. The constants are in handler/cost_constants.h.

   The part of an index that is in memory is known from the bytes of its decoded blocks. It changes while a statement
   runs: the first look-up in each page misses with the present probability, later ones unless the index fits into half of
   the cache. This is charged to ranges, whose number of rows the server knows. In a join it multiplies the cost of one
   look-up by an estimate of the outer rows that ignores most conditions, so no misses are charged (decision record 30). */

#ifndef TEAK_HANDLER_COSTS_H
#define TEAK_HANDLER_COSTS_H

#include "base/server_version.h"
#include "handler/cost_constants.h"

#include <vector>

#include "table/open_table.h"

namespace teak {

class Costs {
 public:
  explicit Costs(OpenTable &open) : open_(open) {}
  Costs(const Costs &) = delete;
  Costs &operator=(const Costs &) = delete;

  /* Called when a statement begins: sizes are read again when they are needed. */
  void begin_statement() { statement_++; }

  /* handler::scan_time(), read_time(), avg_io_cost(): all rows; rows by a key; one row by a unique key. */
  double scan();
  double read(uint key, uint ranges, ha_rows rows);
  static double lookup();
  /* handler::keys_to_use_for_scanning(): the server reads all rows in the order of one of these keys, at any cost, if GROUP
     BY or ORDER BY needs this order and the plan would otherwise be a scan. Secondary keys only if the rows are, or will
     be, in memory. */
  const key_map *keys_to_scan();
  /* What is added to the server's handler::keyread_time() for entries that are not in memory. */
  double entries_not_in_memory(uint key, ha_rows rows);

 private:
  struct Index {
    uint64_t statement = 0;  // in which the sizes were read
    double bytes = 0;        // of all entries, before compression
    double entries = 0;
    double page_bytes = cost::PAGE_BYTES;  // of a page before compression, on average
    double uncached = 0;                   // the part that is not in memory
    double missing = 0;                    // the part that will not be in memory after all pages were read
  };

  static double misses(const Index &index, double lookups);
  const Index &index(uint number);
  const Index &rows() { return index(0); }
  const Index &of_key(uint key);

  OpenTable &open_;
  uint64_t statement_ = 1;
  std::vector<Index> indexes_;
  bool has_rows(uint key) const;
  key_map clustered_;  // the primary key and the clustering keys
};

}  // namespace teak

#endif
