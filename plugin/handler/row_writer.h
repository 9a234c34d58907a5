/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowWriter: INSERT, UPDATE and DELETE of a row.

   1. The row's value, and its key in each index, are encoded once.
   2. Entries for indexes that a concurrent ALTER TABLE builds are added.
   3. One call passes all entries to the engine, which writes all or none.
   4. If the engine rejects the write because the ALTER TABLE was rolled back since step 2, the write is repeated from
      step 2 without these entries.
   5. If a unique key causes a duplicate-key error and the statement needs the conflicting row, that row is locked, and
      its value is kept for the server's next read. If the primary key is the duplicate, the call of step 3 has usually
      done so. Otherwise the row is looked up. If it no longer conflicts, the write is repeated from step 2. */

#ifndef TEAK_HANDLER_ROW_WRITER_H
#define TEAK_HANDLER_ROW_WRITER_H

#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "handler/bulk_insert.h"
#include "handler/conflicting_row.h"
#include "handler/lock_policy.h"
#include "handler/row_keys.h"
#include "handler/row_position.h"
#include "session/cursor.h"
#include "table/open_table.h"

namespace teak {

class RowWriter : private BulkInsert::DuplicateReporter {
 public:
  RowWriter(OpenTable &open, const LockPolicy &locks, const RowPositions &positions, ConflictingRow &conflicting_row)
      : open_(open), locks_(locks), positions_(positions), conflicting_row_(conflicting_row) {}
  RowWriter(const RowWriter &) = delete;
  RowWriter &operator=(const RowWriter &) = delete;

  /* Called when the Share is known. */
  void open();
  /* Called at the end of each statement. */
  void reset();

  /* Set for REPLACE and ON DUPLICATE KEY UPDATE, which continue with the conflicting row. */
  void set_writes_over_duplicates(bool writes_over) { writes_over_duplicates_ = writes_over; }

  /* Each returns 0 or the server's error. After HA_ERR_FOUND_DUPP_KEY the handler's errkey and dup_ref identify the
     key and the conflicting row. */
  int insert(const uchar *record);
  /* Called around many insertions of a statement; `rows`: their number, 0: unknown. In between, insert() may pass rows to
     a bulk load, which end_bulk_insert() adds to the table. */
  void start_bulk_insert(ha_rows rows) {
    if (!writes_over_duplicates_) bulk_.start(rows);
  }
  int end_bulk_insert();
  /* Called at the end of INSERT ... SELECT and of LOAD DATA, with or without triggers and stored functions. If the
     statement has some, the server does not call end_bulk_insert(). */
  int end_copy();
  int end_load_data();
  void cancel_bulk_insert() { bulk_.cancel(); }
  int update(const uchar *old_record, const uchar *new_record);
  int remove(const uchar *record);

 private:
  class Insertion;
  class Change;
  class Removal;

  template <typename Write> int write(Write &write, bool wants_conflicting_row);
  int begin();
  bool building_changed(teak_status status, const Share::Building *building) const;
  teak_slice new_value(uint32_t index) const { return index == 0 ? slice(row_) : new_keys_.value(index); }
  void collect_changes(bool *same_entries);

  /* How a write continues after a duplicate-key error. */
  struct Conflict {
    int error;
    bool repeat;  // the row no longer conflicts
  };
  Conflict resolve_conflict(const teak_duplicate &duplicate, bool wants_conflicting_row);
  bool primary_of_entry(uint32_t index, teak_slice value, teak_slice *primary) const;
  int report_duplicate(const teak_duplicate &duplicate);
  int report_late_duplicate(const teak_duplicate &duplicate) override;
  bool show_row(teak_slice primary, teak_slice row);
  teak_status lock_conflicting_row(uint32_t index, teak_lock_mode mode);
  bool compare_unique_key(const teak_row &row, uint32_t index, bool *same);
  teak_status lock_absent_keys(uint32_t duplicate_index);

  OpenTable &open_;
  const LockPolicy &locks_;
  const RowPositions &positions_;
  ConflictingRow &conflicting_row_;
  RowKeys new_keys_, old_keys_;
  ByteBuffer row_, old_row_;  // encoded rows
  std::vector<teak_row_entry> entries_;
  std::vector<teak_row_change> changes_;
  size_t change_count_ = 0;            // number of changes of the table's own indexes, which are first in changes_
  Cursor probe_;                       // locks the conflicting row
  std::vector<uchar> decoded_record_;  // the conflicting row
  BlobArena decoded_blobs_;
  ByteBuffer compared_key_;
  BulkInsert bulk_{open_, *this};
  bool writes_over_duplicates_ = false;
};

}  // namespace teak

#endif
