/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See cursor.h. */

#include "session/cursor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "monitor/page_counting.h"
#include "session/session.h"

namespace teak {

Cursor::~Cursor() {
  close();
  if (parked_ != nullptr) teak_cursor_close(parked_);
}

const Columns Cursor::ALL_COLUMNS;

void Cursor::bind(Session *session, teak_table *table, uint32_t index, teak_lock_mode mode, Options options,
                  const Columns &columns) {
  if (session != session_ || table != table_ || index != index_ || mode != mode_ || !(options == options_)) {
    close();
    session_ = session, table_ = table, index_ = index, mode_ = mode, options_ = options;
  }
  drop_taken_rows();
  filter_ = nullptr;
  positioned_ = has_last_ = unlocked_ = false;
  beyond_ = End::None;
  set_semi_consistent(false);
  if (bounded_) set_bounds(UNBOUNDED, UNBOUNDED);
  if (columns_ != columns) set_columns(columns);
}

void Cursor::set_columns(const Columns &columns) {
  drop_taken_rows();
  columns_ = columns;
  columns_unset_ = true;
}

teak_status Cursor::set_bounds(teak_slice lower, teak_slice upper) {
  drop_taken_rows();
  has_lower_ = lower.data != nullptr;
  has_upper_ = upper.data != nullptr;
  lower_.clear();
  upper_.clear();
  if (has_lower_) lower_.append(lower.data, lower.len);
  if (has_upper_) upper_.append(upper.data, upper.len);
  bounded_ = has_lower_ || has_upper_;
  is_prefix_ = false;
  // The next call passes the bounds to the engine's cursor, see open().
  bounds_unset_ = true;
  return lower_.failed() || upper_.failed() ? TEAK_OUT_OF_MEMORY : TEAK_OK;
}

teak_status Cursor::set_prefix(teak_slice prefix) {
  const teak_status status = set_bounds(prefix, UNBOUNDED);
  is_prefix_ = true;
  return status;
}

teak_status Cursor::copy_bounds(const Cursor &other) {
  if (other.is_prefix_) return set_prefix(slice(other.lower_));
  return set_bounds(other.has_lower_ ? slice(other.lower_) : UNBOUNDED,
                    other.has_upper_ ? slice(other.upper_) : UNBOUNDED);
}

teak_status Cursor::open_engine_cursor() {
  teak_transaction *transaction = session_ == nullptr ? nullptr : session_->transaction_to_read();
  if (transaction == nullptr) return TEAK_INVALID_ARGUMENT;
  if (parked_ == nullptr) return teak_cursor_open(transaction, table_, index_, mode_, &cursor_);
  const teak_status status = teak_cursor_open_again(parked_, transaction, table_, index_, mode_);
  if (status == TEAK_OK) std::swap(cursor_, parked_);
  return status;
}

teak_status Cursor::open() {
  if (cursor_ == nullptr) {
    const teak_status status = open_engine_cursor();
    if (status != TEAK_OK) {
      cursor_ = nullptr;
      return status;
    }
    session_->add(this);
    if (options_.skip_locked) teak_cursor_set_skip_locked(cursor_, true);
    if (options_.locks_ranges) teak_cursor_lock_ranges(cursor_);
    if (options_.reads_newest) teak_cursor_read_newest(cursor_);
    if (options_.skips_large) teak_cursor_skip_large_values(cursor_, true);
    if (options_.retains_locks) teak_cursor_set_retain_locks(cursor_, true);
    if (semi_consistent_) teak_cursor_set_semi_consistent(cursor_, true);
    positioned_ = false;
    bounds_unset_ = bounded_;
    columns_unset_ = columns_ != nullptr;
  }
  if (columns_unset_) {
    last_key();
    positioned_ = false;
    const teak_status status = teak_cursor_set_columns(cursor_, columns_.get());
    if (status != TEAK_OK) return status;
    columns_unset_ = false;
  }
  if (bounds_unset_) {
    // Saves the last key, because changing the bounds may move the engine's cursor.
    last_key();
    positioned_ = false;
    const teak_slice lower = has_lower_ ? slice(lower_) : UNBOUNDED, upper = has_upper_ ? slice(upper_) : UNBOUNDED;
    const teak_status status =
        is_prefix_ ? teak_cursor_set_prefix(cursor_, lower) : teak_cursor_set_bounds(cursor_, lower, upper);
    if (status != TEAK_OK) return status;
    bounds_unset_ = false;
  }
  return TEAK_OK;
}

/* Copies the key of the row last returned into saved_, and returns it. */
teak_slice Cursor::last_key() {
  if (has_last_ && !last_is_saved_) {
    saved_.clear();
    saved_.append(last_.data, last_.len);
    if (saved_.failed()) has_last_ = false;
    last_is_saved_ = true;
  }
  return slice(saved_);
}

teak_status Cursor::returned(teak_status status, teak_row *row, bool positioned, End beyond) {
  beyond_ = status == TEAK_NOT_FOUND ? beyond : End::None;
  if (status == TEAK_OK) {
    last_ = row->key;
    has_last_ = true;
    last_is_saved_ = false;
    positioned_ = positioned;
    unlocked_ = semi_consistent_ && teak_cursor_is_unlocked(cursor_);
  } else {
    positioned_ = has_last_ = unlocked_ = false;
  }
  return status;
}

/* Forgets the rows that were taken from the engine and not returned. */
void Cursor::drop_taken_rows() {
  if (returned_rows_ > 1) positioned_ = false;
  taken_rows_ = returned_rows_ = 0;
  take_rows_max_ = TAKEN_ROWS_FIRST;
  single_rows_ = 0;
}

teak_status Cursor::get(teak_slice key, teak_row *row) {
  const PageCounting counting(page_statistics_);
  drop_taken_rows();
  teak_status status = open();
  if (status != TEAK_OK) return status;
  return returned(teak_cursor_get(cursor_, key, row), row, false);
}

teak_status Cursor::prefetch(teak_slice key) {
  const teak_status status = open();
  return status == TEAK_OK ? teak_cursor_prefetch(cursor_, key) : status;
}

teak_status Cursor::seek(teak_slice key, teak_seek how, teak_row *row) {
  const PageCounting counting(page_statistics_);
  drop_taken_rows();
  teak_status status = open();
  if (status != TEAK_OK) return status;
  const bool forward = how == TEAK_SEEK_AT_OR_AFTER || how == TEAK_SEEK_AFTER_PREFIX;
  return returned(teak_cursor_seek(cursor_, key, how, row), row, true, forward ? End::Last : End::First);
}

teak_status Cursor::first(teak_row *row) {
  const PageCounting counting(page_statistics_);
  drop_taken_rows();
  teak_status status = open();
  if (status != TEAK_OK) return status;
  return returned(teak_cursor_first(cursor_, row), row, true);
}

teak_status Cursor::last(teak_row *row) {
  const PageCounting counting(page_statistics_);
  drop_taken_rows();
  teak_status status = open();
  if (status != TEAK_OK) return status;
  return returned(teak_cursor_last(cursor_, row), row, true);
}

/* Takes rows from the engine, more with each call, and returns the first one. */
teak_status Cursor::take_rows(teak_row *row) {
  if (taken_ == nullptr) taken_.reset(new (std::nothrow) teak_row[TAKEN_ROWS_MAX]);
  if (taken_ == nullptr) return TEAK_OUT_OF_MEMORY;
  const size_t passed = returned_rows_ == 0 ? 0 : returned_rows_ - 1;
  taken_rows_ = returned_rows_ = 0;
  const teak_status status =
      filter_ == nullptr
          ? teak_cursor_next_rows(cursor_, passed, taken_.get(), take_rows_max_, &taken_rows_)
          : teak_cursor_next_matching_rows(cursor_, filter_, passed, taken_.get(), take_rows_max_, &taken_rows_);
  if (status == TEAK_OK) *row = taken_[returned_rows_++];
  take_rows_max_ = std::min(2 * take_rows_max_, TAKEN_ROWS_MAX);
  // The next rows are in several places, or not all visible.
  if (taken_rows_ == 1) single_rows_ = SINGLE_ROWS;
  return status;
}

teak_status Cursor::next_of_engine(teak_row *row) {
  const PageCounting counting(page_statistics_);
  teak_status status = open();
  if (status != TEAK_OK) return status;
  if (unlocked_) return again(TEAK_SEEK_AT_OR_AFTER, row);
  if (positioned_) {
    if (options_.takes_many && single_rows_ == 0) return returned(take_rows(row), row, true, End::Last);
    if (single_rows_ > 0) single_rows_--;
    taken_rows_ = returned_rows_ = 0;
    return returned(teak_cursor_next(cursor_, row), row, true, End::Last);
  }
  if (beyond_ == End::First) return returned(teak_cursor_first(cursor_, row), row, true);
  if (!has_last_) return TEAK_NOT_FOUND;
  // No key is a proper prefix of another key, so the keys after this prefix are the keys after this key.
  return returned(teak_cursor_seek(cursor_, last_key(), TEAK_SEEK_AFTER_PREFIX, row), row, true, End::Last);
}

teak_status Cursor::previous(teak_row *row) {
  const PageCounting counting(page_statistics_);
  drop_taken_rows();
  teak_status status = open();
  if (status != TEAK_OK) return status;
  if (unlocked_) return again(TEAK_SEEK_AT_OR_BEFORE_PREFIX, row);
  if (positioned_) return returned(teak_cursor_previous(cursor_, row), row, true, End::First);
  if (beyond_ == End::Last) return returned(teak_cursor_last(cursor_, row), row, true);
  if (!has_last_) return TEAK_NOT_FOUND;
  return returned(teak_cursor_seek(cursor_, last_key(), TEAK_SEEK_BEFORE, row), row, true, End::First);
}

/* Waits for the lock of the row last returned, and returns this row, or the next one in the direction of the scan if it
   was deleted. */
teak_status Cursor::again(teak_seek how, teak_row *row) {
  teak_cursor_set_semi_consistent(cursor_, false);
  const End beyond = how == TEAK_SEEK_AT_OR_AFTER ? End::Last : End::First;
  teak_status status = returned(teak_cursor_seek(cursor_, last_key(), how, row), row, true, beyond);
  teak_cursor_set_semi_consistent(cursor_, semi_consistent_);
  return status;
}

void Cursor::set_semi_consistent(bool semi_consistent) {
  if (semi_consistent == semi_consistent_) return;
  semi_consistent_ = semi_consistent;
  if (cursor_ != nullptr) teak_cursor_set_semi_consistent(cursor_, semi_consistent);
}

void Cursor::unlock() {
  unlocked_ = false;
  if (cursor_ != nullptr && mode_ != TEAK_LOCK_NONE) teak_cursor_unlock(cursor_);
}

void Cursor::detach() {
  if (cursor_ == nullptr) return;
  last_key();
  drop_taken_rows();
  teak_cursor_park(cursor_);
  std::swap(cursor_, parked_);
  positioned_ = false;
  session_->remove(this);
}

void Cursor::close() {
  // Most cursors of a handler were not used.
  if (session_ == nullptr && table_ == nullptr) return;
  has_last_ = unlocked_ = semi_consistent_ = false;
  beyond_ = End::None;
  detach();
  session_ = nullptr;
  table_ = nullptr;
  page_statistics_ = nullptr;
  filter_ = nullptr;
  bounded_ = has_lower_ = has_upper_ = is_prefix_ = false;
  columns_unset_ = false;
}

}  // namespace teak
