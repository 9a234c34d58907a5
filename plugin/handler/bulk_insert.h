/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* BulkInsert: the rows of a statement that inserts many rows, between the server's start_bulk_insert() and
   end_bulk_insert().

   1. The first rows are inserted as usual, and their entries are also kept in memory, up to teak_bulk_load_threshold bytes.
   2. If there are more rows, these insertions are rolled back, and the engine's bulk load gets all rows of the statement.
   3. At the end, the load is finished.

   So statements with few rows are not affected. The rows of a load are in the table at the end of the statement, and their
   duplicate keys are found then. Statements that need to know a duplicate earlier, or read their own rows, are excluded. */

#ifndef TEAK_HANDLER_BULK_INSERT_H
#define TEAK_HANDLER_BULK_INSERT_H

#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "session/cursor.h"
#include "table/open_table.h"

namespace teak {

class BulkInsert {
 public:
  explicit BulkInsert(OpenTable &open) : open_(open) {}
  ~BulkInsert() { cancel(); }
  BulkInsert(const BulkInsert &) = delete;
  BulkInsert &operator=(const BulkInsert &) = delete;

  /* Called when the server starts to insert this number of rows; 0: unknown. */
  void start(ha_rows rows);
  /* Whether rows are to be passed to load(), or inserted between before_insert() and keep(). */
  bool is_loading() const { return state_ == State::Loading; }
  bool is_keeping() const { return state_ == State::Keeping; }

  /* These return the server's error. `entries`: one for each index, in their order. */
  int before_insert();
  int keep(const std::vector<teak_row_entry> &entries);
  int load(const std::vector<teak_row_entry> &entries);
  /* Ends the load. If it has found a duplicate key, sets `is_duplicate` instead of returning an error. */
  int finish(bool *is_duplicate, teak_duplicate *duplicate);

  /* Discards the rows of a load. */
  void cancel();

 private:
  enum class State { Off, Keeping, Loading };

  bool is_suitable(ha_rows rows) const;
  bool add_kept(const std::vector<teak_row_entry> &entries);
  size_t read_row(size_t at, std::vector<teak_row_entry> *entries) const;
  int begin_load();

  OpenTable &open_;
  State state_ = State::Off;
  ulonglong kept_bytes_max_ = 0;
  uint64_t mark_ = 0;  // the savepoint before the first row
  bool has_mark_ = false;
  /* For each entry of each row: a Header, the key, the value. */
  ByteBuffer kept_;
  teak_load *load_ = nullptr;
};

}  // namespace teak

#endif
