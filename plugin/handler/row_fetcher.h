/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowFetcher: converts an entry of an index to the server's record.

   A secondary entry refers to its row by the primary key. The entry and the row may not match, in three cases:
   1. A locking statement locks the row and reads its newest version.
   2. A dirty read sees the current state of each index.
   3. A transaction writes a row that another transaction has changed after the first one's snapshot. It then sees its
      own version of the row, but the entries from before the other transaction's change.
   An entry that does not match its row is skipped. */

#ifndef TEAK_HANDLER_ROW_FETCHER_H
#define TEAK_HANDLER_ROW_FETCHER_H

#include "base/server_version.h"

#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "handler/conflicting_row.h"
#include "handler/lock_policy.h"
#include "handler/prefetch_window.h"
#include "handler/row_position.h"
#include "session/cursor.h"
#include "table/open_table.h"

namespace teak {

class RowFetcher {
 public:
  RowFetcher(OpenTable &open, const LockPolicy &locks, const RowPositions &positions, ConflictingRow &conflicting_row,
             PrefetchWindow *window)
      : open_(open), locks_(locks), positions_(positions), conflicting_row_(conflicting_row), window_(window) {}
  RowFetcher(const RowFetcher &) = delete;
  RowFetcher &operator=(const RowFetcher &) = delete;

  /* Results of fetch() that are not errors. */
  static constexpr int SKIP = -1;      // the entry does not match its row
  static constexpr int REJECTED = -2;  // a pushed condition or filter rejects the entry

  /* Called before a scan or lookups by position: determines which columns to read. */
  void begin_reads();
  /* The key whose entries are fetched; MAX_KEY: the rows themselves. */
  void set_key(uint key) { key_ = key; }
  /* Set if the server reads only keys and the positions of the rows. */
  void set_positions_only(bool positions_only) { positions_only_ = positions_only; }
  /* Called at the end of each statement. */
  void reset();
  void free_blobs() { blobs_.clear(0); }

  /* Whether a scan of the rows takes no locks and needs only columns that are in their keys. It then need not read
     large rows. */
  bool needs_only_key() const;

  /* Called at the beginning of a scan: the columns that its cursor must return. `may_change`: the read set may change during
     the scan. */
  const Columns &choose_columns(bool may_change);

  /* Reads the row of an entry into the record. Returns 0, SKIP, REJECTED or the server's error. */
  int fetch(const teak_row &entry, uchar *record);
  int fetch_by_position(const uchar *position, uchar *record);
  /* Returns the row that caused a duplicate-key error, if it has this primary key and is stored; otherwise SKIP. */
  int fetch_conflicting(teak_slice primary, uchar *record);

  /* Whether the last row was read by its primary key and not from the scan's cursor. */
  bool read_by_primary() const { return read_by_primary_; }
  /* Unlocks the row that was read last by its primary key. A conflicting row remains locked. */
  void unlock() {
    if (!is_conflicting_row_) rows_.unlock();
  }

 private:
  bool has_columns(const std::vector<my_bitmap_map> &chosen) const;
  teak_status look_up(teak_slice primary, bool all_columns, teak_row *row);
  teak_status add_read_set(std::vector<my_bitmap_map> *chosen, const Columns **columns);
  int fetch_whole(const teak_row &entry, uchar *record);
  int fetch_by_secondary(const teak_row &entry, uchar *record);
  int fetch_clustering(const Share::Key &key, const Share::EntryRest &rest, uchar *record);
  int fetch_row_of_entry(const teak_row &entry, const Share::EntryRest &rest, bool complete, uchar *record);
  bool matches_row() const;
  bool is_covering();
  bool decode_entry(const Share::Key &key, const teak_row &entry, const Share::EntryRest &rest, uchar *record);
  bool decode_row(const teak_row &row, uchar *record, bool all_columns);
  bool must_read_all_columns();
  bool has_pushed_condition() const;
  int check_pushed_condition();
  int check_pushed_filter(teak_slice primary);
  bool compute_key_columns(uchar *record);
  bool row_has_entry(const teak_row &entry, uchar *record, teak_status *status);

  OpenTable &open_;
  const LockPolicy &locks_;
  const RowPositions &positions_;
  ConflictingRow &conflicting_row_;
  PrefetchWindow *const window_;
  Cursor rows_;                 // reads rows by primary key
  bool is_rows_bound_ = false;  // since the last begin_reads()
  Cursor probe_;                // checks that a locked row still has an entry
  uint key_ = MAX_KEY;
  bool all_columns_ = false;  // the complete row may be written back
  bool positions_only_ = false;
  bool read_by_primary_ = false;
  std::vector<my_bitmap_map> chosen_;  // the read set for which the scan's cursor returns columns; empty: all columns
  std::vector<my_bitmap_map> looked_up_;  // the columns that rows_ returns; empty: all columns, or none chosen yet
  bool looks_up_all_ = false;             // rows_ returns all columns until the next begin_reads()
  std::vector<my_bitmap_map> needed_by_;  // the set for which needed_ was made
  Columns needed_;
  bool is_conflicting_row_ = false;  // the last row was returned from conflicting_row_
  ByteBuffer compared_key_;
  BlobArena blobs_;
};

}  // namespace teak

#endif
