/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Cursor: an engine cursor that survives its transaction. The server keeps scans open across COMMIT (HANDLER ...
   READ, cursors over several statements), but the engine does not. So at the end of a transaction, and before a
   statement that may see a newer snapshot, the session detaches its cursors: each saves the last key that it
   returned and continues from there in the next transaction. A Cursor belongs to one handler and is used by one
   thread at a time. */

#ifndef TEAK_SESSION_CURSOR_H
#define TEAK_SESSION_CURSOR_H

#include <memory>

#include "format/buffer.h"
#include "base/core.h"

class ha_handler_stats;

namespace teak {

class Session;

inline teak_slice slice(const ByteBuffer &buffer) { return {buffer.data(), buffer.size()}; }
constexpr teak_slice UNBOUNDED = {nullptr, 0};

/* Columns of values that readers need. */
using Columns = std::shared_ptr<teak_columns>;

class Cursor {
 public:
  Cursor() = default;
  ~Cursor();
  Cursor(const Cursor &) = delete;
  Cursor &operator=(const Cursor &) = delete;

  struct Options {
    bool skip_locked = false;
    bool retains_locks = false;  // teak_cursor_set_retain_locks()
    bool locks_ranges = false;   // teak_cursor_lock_ranges()
    bool skips_large = false;    // teak_cursor_skip_large_values()
    bool reads_newest = false;   // teak_cursor_read_newest()
    /* next() takes many rows from the engine in one call. Then a scan does not find rows that the transaction writes a few
       rows ahead of it. */
    bool takes_many = false;
    bool operator==(const Options &other) const {
      return skip_locked == other.skip_locked && retains_locks == other.retains_locks &&
             locks_ranges == other.locks_ranges && skips_large == other.skips_large &&
             reads_newest == other.reads_newest && takes_many == other.takes_many;
    }
  };
  static const Columns ALL_COLUMNS;
  /* Selects the index, lock mode, options and columns (see set_columns()) of the following calls. Resets position, bounds
     and semi-consistent reads; reuses the engine's cursor if possible. */
  void bind(Session *session, teak_table *table, uint32_t index, teak_lock_mode mode, Options options,
            const Columns &columns = ALL_COLUMNS);

  /* Sets the statistics to which later reads add their pages; nullptr: no counting. */
  void count_into(ha_handler_stats *statistics) { page_statistics_ = statistics; }

  /* Restricts following calls to lower <= key < upper. The bytes are copied. */
  teak_status set_bounds(teak_slice lower, teak_slice upper);
  /* Restricts following calls to the entries whose columns of the index are encoded as this prefix. The bytes are copied. */
  teak_status set_prefix(teak_slice prefix);
  bool bounded() const { return bounded_; }
  /* Lets consistent reads return only some columns of the values, see teak_cursor_set_columns(), until the cursor is
     bound again. ALL_COLUMNS: all columns. */
  void set_columns(const Columns &columns);
  /* Lets next() pass over pages without rows that match the filter, until the cursor is bound again; nullptr: no filter. The
     filter must outlive its use. */
  void set_filter(teak_page_filter *filter) { filter_ = filter; }
  /* Sets the bounds or the prefix of another cursor. */
  teak_status copy_bounds(const Cursor &other);

  /* Like the functions teak_cursor_...() of teak.h. A row's bytes are valid until the next call on this cursor, or
     until it is detached. */
  teak_status get(teak_slice key, teak_row *row);
  teak_status prefetch(teak_slice key);
  teak_status seek(teak_slice key, teak_seek how, teak_row *row);
  teak_status first(teak_row *row);
  teak_status last(teak_row *row);
  /* Continue from the row last returned, by any call, or from the end that the last call reached. */
  teak_status next(teak_row *row) {
    if (returned_rows_ == taken_rows_) return next_of_engine(row);
    *row = taken_[returned_rows_++];
    last_ = row->key;
    last_is_saved_ = false;
    return TEAK_OK;
  }
  teak_status previous(teak_row *row);
  void unlock();

  /* Turns semi-consistent reads on or off, until the cursor is bound again. If another transaction has locked or
     written a row, such a read returns the row's newest committed version and does not lock the row. The following
     next() or previous() waits for the lock of this row and returns the row again if it still exists, unless unlock()
     was called for it. */
  void set_semi_consistent(bool semi_consistent);
  bool is_unlocked() const { return unlocked_; }

  /* Closes the engine's cursor and saves its position. */
  void detach();
  /* Calls detach() and resets position and bounds. */
  void close();

 private:
  friend class Session;

  static constexpr size_t TAKEN_ROWS_FIRST = 4, TAKEN_ROWS_MAX = 32;
  /* So many rows are taken one by one after the engine has returned only one. */
  static constexpr size_t SINGLE_ROWS = 8;

  teak_status open();
  teak_status open_engine_cursor();
  teak_status next_of_engine(teak_row *row);
  teak_status take_rows(teak_row *row);
  void drop_taken_rows();
  enum class End { None, First, Last };
  /* Notes the result of a call. `beyond`: the end of the index that the call has reached if there was no row. */
  teak_status returned(teak_status status, teak_row *row, bool positioned, End beyond = End::None);
  teak_slice last_key();
  teak_status again(teak_seek how, teak_row *row);

  Session *session_ = nullptr;
  teak_table *table_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  teak_cursor *parked_ = nullptr;               // the closed engine cursor, whose memory the next one uses
  Cursor *newer_ = nullptr, *older_ = nullptr;  // the session's list of open cursors
  uint32_t index_ = 0;
  teak_lock_mode mode_ = TEAK_LOCK_NONE;
  Options options_;
  ha_handler_stats *page_statistics_ = nullptr;
  teak_page_filter *filter_ = nullptr;
  bool bounded_ = false;
  bool bounds_unset_ = false;  // the bounds have not been passed to the engine's cursor yet
  bool semi_consistent_ = false;
  bool unlocked_ = false;    // the row last returned was not locked (semi-consistent read)
  bool positioned_ = false;  // the engine's cursor is at the row last returned, or at the first of taken_
  /* Rows that the engine has returned together; next() has returned the first `returned_rows_` of them. */
  std::unique_ptr<teak_row[]> taken_;
  size_t taken_rows_ = 0, returned_rows_ = 0;
  size_t take_rows_max_ = TAKEN_ROWS_FIRST;
  size_t single_rows_ = 0;
  End beyond_ = End::None;
  bool has_last_ = false;
  bool last_is_saved_ = false;  // the last key is in saved_, otherwise in the engine's memory
  teak_slice last_ = {nullptr, 0};
  ByteBuffer saved_, lower_, upper_;
  Columns columns_;
  bool columns_unset_ = false;  // the columns have not been passed to the engine's cursor yet
  bool has_lower_ = false, has_upper_ = false;
  bool is_prefix_ = false;  // lower_ is a prefix, and there is no other bound
};

}  // namespace teak

#endif
