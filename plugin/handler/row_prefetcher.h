/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowPrefetcher: begins to read the rows that a scan of a secondary key, or a list of primary keys, will fetch.

   The rows of adjacent entries are in different pages. Without prefetching, a scan of a table larger than memory waits
   for one page after the other; the disk could read many at the same time. PrefetchWindow decides how many. The entries
   that follow in a scan are read with a cursor of its own, which takes no locks and no snapshot: the statement's cursor
   later reads them as its isolation level requires. */

#ifndef TEAK_HANDLER_ROW_PREFETCHER_H
#define TEAK_HANDLER_ROW_PREFETCHER_H

#include "base/server_version.h"

#include "base/core.h"
#include "format/buffer.h"
#include "handler/prefetch_window.h"
#include "session/cursor.h"
#include "table/open_table.h"

namespace teak {

class RowPrefetcher {
 public:
  explicit RowPrefetcher(OpenTable &open) : open_(open) {}
  RowPrefetcher(const RowPrefetcher &) = delete;
  RowPrefetcher &operator=(const RowPrefetcher &) = delete;

  /* Selects the secondary key that a scan begins to read. */
  void begin(uint key);
  /* Called when the scan continues at another entry than the next one. */
  void restart();
  void close();
  /* Called before the row of an entry of the scan is fetched. */
  void before_entry(const Cursor &scan, const teak_row &entry, bool forward) {
    if (const unsigned rows = window_.next()) prefetch_entries(scan, entry, forward, rows);
  }

  /* Selects the rows with these ranges, if each is one value of the primary key. The sequence is read to its end. */
  void begin_lookups(uint key, const RANGE_SEQ_IF &ranges, void *parameter, uint count, uint mode);
  /* Called before each row of the ranges is fetched. A range without a row is passed without a call, so some keys may
     be prefetched too late. */
  bool has_lookups() const { return next_key_ != keys_.size(); }
  void before_lookup() {
    if (const unsigned rows = window_.next()) prefetch_keys(rows);
  }

  PrefetchWindow *window() { return &window_; }

 private:
  void prefetch_entries(const Cursor &scan, const teak_row &entry, bool forward, unsigned rows);
  void prefetch_keys(unsigned rows);
  void bind(Cursor *cursor, uint32_t index);
  void forget_lookups();

  OpenTable &open_;
  PrefetchWindow window_;
  Cursor entries_;  // of the secondary key, ahead of the scan
  Cursor rows_;
  uint key_ = MAX_KEY;
  bool is_ahead_ = false;  // entries_ is on the last entry whose row was prefetched
  bool at_end_ = false;    // there are no entries after it
  ByteBuffer keys_;        // the primary keys of a list of lookups, each after its length
  size_t next_key_ = 0;    // the offset of the first that is not prefetched
};

}  // namespace teak

#endif
