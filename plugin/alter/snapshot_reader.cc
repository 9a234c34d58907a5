/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See snapshot_reader.h. */

#include "alter/snapshot_reader.h"

#include <iterator>

#include "base/engine.h"

namespace teak {

void SnapshotReader::close() {
  if (cursor_ != nullptr) teak_cursor_close(cursor_);
  if (transaction_ != nullptr) teak_transaction_rollback(transaction_);
  cursor_ = nullptr;
  transaction_ = nullptr;
  started_ = false;
  taken_ = returned_ = 0;
}

teak_status SnapshotReader::open(teak_table *table) {
  if (cursor_ != nullptr) return TEAK_OK;
  teak_status status = teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction_);
  if (status == TEAK_OK) status = teak_transaction_take_snapshot(transaction_);
  if (status == TEAK_OK) status = teak_cursor_open(transaction_, table, 0, TEAK_LOCK_NONE, &cursor_);
  return status;
}

teak_status SnapshotReader::take_rows(teak_row *row) {
  if (!started_) {
    started_ = true;
    return teak_cursor_first(cursor_, row);
  }
  const size_t passed = taken_ == 0 ? 0 : taken_ - 1;
  taken_ = returned_ = 0;
  const teak_status status = teak_cursor_next_rows(cursor_, passed, rows_, std::size(rows_), &taken_);
  if (status == TEAK_OK) *row = rows_[returned_++];
  return status;
}

}  // namespace teak
