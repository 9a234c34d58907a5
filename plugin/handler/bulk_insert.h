/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* BulkInsert: the rows of a statement that inserts many rows into a table or partition, between the server's
   start_bulk_insert() and end_bulk_insert(). If the statement has triggers or stored functions, the server calls neither,
   because these may use the table. If they do not, the first row starts it, and extra() ends it.

   1. The first rows are inserted as usual, and their entries are also kept in memory, up to teak_bulk_load_threshold bytes.
   2. If there are more rows, these insertions are rolled back, and the engine's bulk load gets all rows of the statement.
      If triggers or functions have written to other tables, which a rollback would undo, the load gets the later rows only.
      The later rows are encoded by another thread, if one is idle (load_encoder.h).
   3. At the end, the load is finished.

   So statements with few rows are not affected. The rows of a load are in the table at the end of the statement, and their
   duplicate keys are found then. Statements that need to know a duplicate earlier, or read their own rows, are excluded.
   Partitions of a table do step 2 together (session/bulk_insert_group.h). */

#ifndef TEAK_HANDLER_BULK_INSERT_H
#define TEAK_HANDLER_BULK_INSERT_H

#include <memory>
#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "handler/load_encoder.h"
#include "monitor/refusals.h"
#include "session/bulk_insert_group.h"
#include "table/open_table.h"

namespace teak {

class BulkInsert : private BulkInsertGroup::Member {
 public:
  /* Reports a duplicate key that was found after the row's insertion, and returns the server's error. */
  class DuplicateReporter {
   public:
    virtual ~DuplicateReporter() = default;
    virtual int report_late_duplicate(const teak_duplicate &duplicate) = 0;
  };

  BulkInsert(OpenTable &open, DuplicateReporter &reporter) : open_(open), reporter_(reporter) {}
  ~BulkInsert() override { cancel(); }
  BulkInsert(const BulkInsert &) = delete;
  BulkInsert &operator=(const BulkInsert &) = delete;

  /* Called when the server starts to insert this number of rows; 0: unknown. */
  void start(ha_rows rows, bool is_announced = true);
  /* Called before each row. Calls start() if the server does not announce many rows because of triggers or functions. */
  void start_unannounced() {
    if (!was_started_ && open_.thd()->locked_tables_mode > LTM_LOCK_TABLES) start(0, false);
  }
  /* Whether rows are to be passed to load(), or inserted between before_insert() and after_insert(). */
  bool is_loading() const { return state_ == State::Loading; }

  /* These return the server's error. `entries`: one for each index, in their order. load() gets the server's record, and
     OpenTable::row_id(). */
  int before_insert();
  int after_insert(const std::vector<teak_row_entry> &entries);
  int load(const uchar *record);
  /* Ends the load. */
  int finish();

  /* Discards the rows of a load. */
  void cancel() {
    if (was_started_ || lacks_memory_ || group_ != nullptr || load_ != nullptr || state_ != State::Off) discard();
  }

 private:
  enum class State { Off, Keeping, Loading };

  void discard();
  Refusal refusal() const;
  bool is_for_few_rows(ha_rows rows) const;
  bool add_kept(const std::vector<teak_row_entry> &entries);
  template <typename Use> int use_kept(Use use);

  size_t kept_bytes() const override { return kept_.size(); }
  void drop_kept() override;
  void stop() override;
  int begin_load() override;
  int insert_again() override;
  int open_load();
  int begin_encoding();
  int pass_rows();

  OpenTable &open_;
  DuplicateReporter &reporter_;
  BulkInsertGroup *group_ = nullptr;  // of the session, while this is one of its members
  State state_ = State::Off;
  bool was_started_ = false;   // start() was called
  bool is_announced_ = false;  // by the server
  bool lacks_memory_ = false;
  /* For each entry of each row: a Header, the key, the value. */
  ByteBuffer kept_;
  teak_load *load_ = nullptr;
  std::unique_ptr<LoadEncoder> encoder_;  // deleted after the load has ended
};

}  // namespace teak

#endif
