/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* SnapshotReader: reads the rows of one snapshot, in a transaction separate from the connection's. */

#ifndef TEAK_ALTER_SNAPSHOT_READER_H
#define TEAK_ALTER_SNAPSHOT_READER_H

#include "base/core.h"

namespace teak {

class SnapshotReader {
 public:
  SnapshotReader() = default;
  ~SnapshotReader() { close(); }
  SnapshotReader(const SnapshotReader &) = delete;
  SnapshotReader &operator=(const SnapshotReader &) = delete;

  /* Takes the snapshot and positions before the first row. Does nothing if that was done. */
  teak_status open(teak_table *table);
  void close();
  /* Lets the reader return only some columns of the rows, see teak_cursor_set_columns(). */
  teak_status set_columns(const teak_columns *columns) { return teak_cursor_set_columns(cursor_, columns); }
  /* Returns the next row, whose bytes are valid until a later call. */
  teak_status next(teak_row *row) {
    if (returned_ == taken_) return take_rows(row);
    *row = rows_[returned_++];
    return TEAK_OK;
  }
  teak_transaction *transaction() const { return transaction_; }
  /* next() must not be called after this. */
  teak_status get(teak_slice key, teak_row *row) { return teak_cursor_get(cursor_, key, row); }

 private:
  teak_status take_rows(teak_row *row);

  teak_transaction *transaction_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  bool started_ = false;
  /* Rows that the engine has returned together; next() has returned the first `returned_` of them. */
  teak_row rows_[32];
  size_t taken_ = 0, returned_ = 0;
};

}  // namespace teak

#endif
