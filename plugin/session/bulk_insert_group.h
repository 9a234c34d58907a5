/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* BulkInsertGroup: what the bulk inserts of a statement share. There is one for each table into which it inserts many
   rows: several if the table is partitioned, each of which begins with the first row of its partition.

   Until they have kept enough rows, they insert them as usual. Then the insertions of all are rolled back to a savepoint,
   and each begins a load, or inserts its rows again if there is no memory for another load. If the transaction has
   written other rows since the savepoint, nothing is rolled back, and the loads get only the rows that follow. If memory
   is short before there are enough rows, the group stops: all rows are inserted as usual. */

#ifndef TEAK_SESSION_BULK_INSERT_GROUP_H
#define TEAK_SESSION_BULK_INSERT_GROUP_H

#include <cstdint>
#include <vector>

#include "base/core.h"
#include "session/insert_pace.h"

namespace teak {

class BulkInsertGroup {
 public:
  class Member {
   public:
    virtual ~Member() = default;
    virtual size_t kept_bytes() const = 0;
    /* Called if the rows that the member has kept are not rolled back. */
    virtual void drop_kept() = 0;
    /* As drop_kept(), and the member keeps no more rows. */
    virtual void stop() = 0;
    /* Both return the server's error. They are called after the rollback of the rows that the member has kept. */
    virtual int begin_load() = 0;
    virtual int insert_again() = 0;
  };

  BulkInsertGroup() = default;
  ~BulkInsertGroup() { return_memory(); }
  BulkInsertGroup(const BulkInsertGroup &) = delete;
  BulkInsertGroup &operator=(const BulkInsertGroup &) = delete;

  /* `bytes_max`: of rows that one member keeps. `tables`: how many members there may be. */
  void add(Member *member, size_t bytes_max, uint32_t tables);
  void remove(Member *member);

  bool is_empty() const { return members_.empty(); }
  /* Whether the members load their rows. */
  bool is_loading() const { return is_loading_; }
  bool is_stopped() const { return is_stopped_; }
  /* How many tables share the memory of the loads. */
  uint32_t tables() const { return tables_; }

  /* Called before each write of the transaction. */
  void note_write() { writes_++; }
  /* Called then, if the write inserts a row of a member: sets the savepoint before the first one. */
  teak_status before_insert(teak_transaction *transaction);
  /* Called when a member has kept more bytes. Returns whether loads are to begin. Stops the group if memory is short and
     few rows are kept. */
  bool note_kept(size_t bytes);
  /* Begins loads of the kept rows. Sets `status`, which must be TEAK_OK, if the insertions could not be rolled back;
     otherwise returns the server's error. */
  int begin_loads(teak_transaction *transaction, teak_status *status);

  /* Called after each row that the statement inserts without a group, with its size. Whether more than `bytes_max` bytes
     have been inserted so; true only once per statement. */
  bool count_row_by_row(size_t bytes, size_t bytes_max);
  /* Called when a statement begins. */
  void begin_statement();
  InsertPace &pace() { return pace_; }

 private:
  bool take_memory();
  void return_memory();
  void stop();

  std::vector<Member *> members_;
  size_t bytes_max_ = 0;
  size_t kept_bytes_ = 0;
  uint64_t memory_bytes_ = 0;             // taken from the engine's budget for kept rows
  uint64_t mark_ = 0;                     // the savepoint
  uint64_t writes_ = 0, insertions_ = 0;  // since the savepoint: all writes, and insertions of members
  bool has_mark_ = false;
  bool is_loading_ = false, is_stopped_ = false;
  uint32_t tables_ = 1;
  size_t row_by_row_bytes_ = 0, row_by_row_rows_ = 0;
  bool counted_ = false;
  InsertPace pace_;
};

}  // namespace teak

#endif
