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
  teak_status next(teak_row *row);
  teak_transaction *transaction() const { return transaction_; }
  teak_status get(teak_slice key, teak_row *row) { return teak_cursor_get(cursor_, key, row); }

 private:
  teak_transaction *transaction_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  bool started_ = false;
};

}  // namespace teak

#endif
