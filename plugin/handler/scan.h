/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Scan: scans of an index or of the table for the server's calls. The bounds of a range are passed to the engine, not
   only compared, because a locking scan must not lock rows beyond its range. */

#ifndef TEAK_HANDLER_SCAN_H
#define TEAK_HANDLER_SCAN_H

#include "base/server_version.h"

#include <memory>

#include "base/core.h"
#include "condition/scan_filter.h"
#include "format/buffer.h"
#include "handler/lock_policy.h"
#include "handler/row_fetcher.h"
#include "handler/row_prefetcher.h"
#include "session/cursor.h"
#include "table/open_table.h"

namespace teak {

class Scan {
 public:
  Scan(OpenTable &open, const LockPolicy &locks, RowFetcher &fetcher, RowPrefetcher &prefetcher)
      : open_(open), locks_(locks), fetcher_(fetcher), prefetcher_(prefetcher) {}
  Scan(const Scan &) = delete;
  Scan &operator=(const Scan &) = delete;

  /* Begins a scan of a key; MAX_KEY: of the whole table. */
  void begin(uint key);
  void forget_bounds();
  void close();

  /* Sets a condition that all rows must match which the server needs, for following scans of the whole table or of ranges of
     the primary key; nullptr: none.
     Consistent reads may then leave out rows that do not match. */
  void push_condition(const COND *condition);

  /* Each reads a row into the record and returns 0 or the server's error. */
  int next_row(uchar *record);  // of the whole table
  int read(uchar *record, const uchar *image, key_part_map parts, enum ha_rkey_function how);
  int next(uchar *record);
  int previous(uchar *record);
  int first(uchar *record);
  int last(uchar *record);

  /* Whether the scan continues an exact lookup, so that next_same() can be called. */
  bool is_exact() const { return exact_ != Exact::No; }
  int next_same(uchar *record);

  /* Called before and after the server's read_range_first(), which calls read() or first(). begin_range() and
     prepare_range() return the server's error. */
  int begin_range(const key_range *end);
  void end_range() { in_range_ = false; }
  /* Called before a range is read backward, from its end. */
  int prepare_range(const key_range *start, const key_range *end);

  /* Unlocks the row last returned. */
  void unlock_row();
  void set_semi_consistent(bool semi_consistent) { cursor_.set_semi_consistent(semi_consistent); }
  /* Whether the row last returned is a committed version that is not locked. */
  bool was_semi_consistent() const { return !fetcher_.read_by_primary() && cursor_.is_unlocked(); }

 private:
  enum class Direction { None, Forward, Backward };
  /* The kind of exact lookup with which the scan began. */
  enum class Exact : uint8_t {
    No,
    Range,   // all rows within the bounds are equal to the lookup's key; index_next() may continue beyond them
    Found,   // a unique key, found: there is no second row
    Missed,  // a unique key, not found; next() continues from the position of the missing key
  };

  int read_exact(uchar *record, const uchar *image, key_part_map parts, Direction direction);
  int read_unique(uchar *record);
  teak_status next_of_range(const uchar *record, teak_row *entry);
  bool may_filter() const;
  void begin_filter(const uchar *record);
  void end_filter();
  void note_condition();
  teak_status set_range_bounds();
  teak_status set_prefix_bounds();
  int fetch(teak_status status, teak_row entry, Direction direction, uchar *record, int not_found);
  int seek(teak_seek how, Direction direction, uchar *record, int not_found);
  const KeyCodec &codec() const { return open_.share()->codec(key_); }

  OpenTable &open_;
  const LockPolicy &locks_;
  RowFetcher &fetcher_;
  RowPrefetcher &prefetcher_;
  Cursor cursor_;
  uint key_ = MAX_KEY;
  bool reads_secondary_ = false;
  bool started_ = false;
  bool is_noted_ = false;  // note_condition() was called in this statement
  uint range_rows_ = 0;    // rows of the range that next_of_range() has read
  Exact exact_ = Exact::No;
  bool in_range_ = false;   // during the server's read_range_first()
  bool has_range_ = false;  // prepare_range() was called for the next lookup
  teak_slice lower_ = UNBOUNDED, upper_ = UNBOUNDED;
  const COND *condition_ = nullptr;
  std::unique_ptr<ScanFilter> filter_;  // of condition_, in scans after the first one
  ByteBuffer prefix_, prefix_end_, lower_bytes_, upper_bytes_;
};

}  // namespace teak

#endif
