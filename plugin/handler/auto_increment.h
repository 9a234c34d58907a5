/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* AutoIncrement: the values of AUTO_INCREMENT columns.

   As the first part of a key, the column takes its values from a durable counter of the table, which reserves them in
   intervals. As a later part, it takes the maximum plus one among the rows that are equal in the previous parts. That
   maximum is read under a lock.

   The binary log contains the first value that a statement reserved, and a replay continues from that value. So a
   statement that may be logged as text, and may need several intervals, locks the counter until it ends. */

#ifndef TEAK_HANDLER_AUTO_INCREMENT_H
#define TEAK_HANDLER_AUTO_INCREMENT_H

#include "base/server_version.h"

#include "base/core.h"
#include "format/buffer.h"
#include "handler/lock_policy.h"
#include "session/cursor.h"
#include "table/auto_increment_counter.h"
#include "table/open_table.h"

namespace teak {

class AutoIncrement {
 public:
  AutoIncrement(OpenTable &open, const LockPolicy &locks) : open_(open), locks_(locks) {}
  AutoIncrement(const AutoIncrement &) = delete;
  AutoIncrement &operator=(const AutoIncrement &) = delete;

  /* Called around the server's update_auto_increment(), which calls reserve(). before_row() clears the error of the
     previous row. after_row() returns the error of this row: that of reserve() if it has stored one, else `error`. */
  void before_row() { error_ = 0; }
  int after_row(int error);

  /* handler::get_auto_increment(). */
  void reserve(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first, ulonglong *reserved);
  /* Ends the statement's use of the counter. */
  void release();
  void unlock_counter();
  void close_cursor() { probe_.close(); }

  /* Advances the counter past the value, generated or explicit, of a written row. */
  int note(const uchar *record);

  /* ALTER TABLE ... AUTO_INCREMENT = `wanted`. If a row has this value or a higher one, sets the counter past the
     maximum, so that no value is assigned again. */
  int set_counter_past_rows(ulonglong wanted);

 private:
  bool may_need_intervals() const;
  template <typename Move> int move_counter(Move move);
  int lock_counter();
  int reserve_interval(ulonglong offset, ulonglong increment, ulonglong *first, ulonglong *reserved);
  int next_in_group(ulonglong *next);
  int max_of_rows(ulonglong *max);
  int value_of_entry(uint key, const teak_row &entry, ulonglong *value);

  OpenTable &open_;
  const LockPolicy &locks_;
  Cursor probe_;
  ByteBuffer prefix_, record_;
  bool locks_counter_ = false;
  int error_ = 0;
  ulonglong rows_left_ = 0;  // rows for which the statement requested values and which are not yet written
};

}  // namespace teak

#endif
