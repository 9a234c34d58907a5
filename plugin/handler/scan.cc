/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See scan.h. */

#include "handler/scan.h"

#include <new>

#include "handler/key_bounds.h"
#include "monitor/variables.h"

namespace teak {

namespace {

constexpr ha_rows FILTERED_ROWS_MIN = 1000;  // in smaller tables there are few pages to pass over
constexpr uint ROWS_BEFORE_FILTER = 1000;    // of ranges of the primary key: short ones have few pages, too
constexpr int ATTEMPTS_MAX = 100;            // of a unique lookup, see read_unique()

/* The server's own uniqueness checks search for a conflicting row before they write a row. Other transactions must
   not insert such a row between the search and the write, under any isolation level. */
bool is_checked_by_server(const KEY &key) { return key.algorithm == HA_KEY_ALG_LONG_HASH || key.without_overlaps; }

}  // namespace

void Scan::begin(uint key) {
  key_ = key;
  fetcher_.set_key(key);
  const Share &share = *open_.share();
  prefetcher_.begin(key);
  reads_secondary_ = key != MAX_KEY && key != share.primary_key();
  Cursor::Options options = locks_.cursor_options();
  options.locks_ranges =
      key != MAX_KEY && locks_.mode() == TEAK_LOCK_EXCLUSIVE && is_checked_by_server(open_.table()->key_info[key]);
  options.skips_large = fetcher_.needs_only_key();
  // Between two reads of a HANDLER, its transaction may write, and its read set may change.
  const bool is_handler_read = thd_sql_command(open_.thd()) == SQLCOM_HA_READ;
  options.takes_many = !locks_.locking() && !is_handler_read;
  cursor_.bind(open_.session(), share.table(), key == MAX_KEY ? 0 : share.index_of(key), locks_.mode(), options,
               fetcher_.choose_columns(is_handler_read));
  cursor_.set_semi_consistent(locks_.semi_consistent());
  cursor_.count_into(open_.server().handler_stats);
  started_ = false;
  forget_bounds();
}

void Scan::forget_bounds() {
  exact_ = Exact::No;
  in_range_ = has_range_ = false;
  open_.server().in_range_check_pushed_down = false;
  lower_ = upper_ = UNBOUNDED;
}

void Scan::close() {
  cursor_.close();
  prefetcher_.close();
  forget_bounds();
}

void Scan::unlock_row() {
  if (fetcher_.read_by_primary())
    fetcher_.unlock();
  else
    cursor_.unlock();
}

/* Fetches the row of the entry. If the entry does not match its row or is rejected, continues with the next entry in
   the direction; without a direction, returns SKIP or `not_found`. `not_found`: the error if there are no more entries. */
int Scan::fetch(teak_status status, teak_row entry, Direction direction, uchar *record, int not_found) {
  for (;;) {
    if (status == TEAK_NOT_FOUND) return not_found;
    if (status != TEAK_OK) return open_.failure(status);
    if (reads_secondary_ && direction != Direction::None)
      prefetcher_.before_entry(cursor_, entry, direction == Direction::Forward);
    const int error = fetcher_.fetch(entry, record);
    if (error != RowFetcher::SKIP && error != RowFetcher::REJECTED) return error;
    if (direction == Direction::None) return error == RowFetcher::REJECTED ? not_found : error;
    if (thd_kill_level(open_.thd()) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
    status = direction == Direction::Forward ? cursor_.next(&entry) : cursor_.previous(&entry);
  }
}

int Scan::seek(teak_seek how, Direction direction, uchar *record, int not_found) {
  teak_row entry;
  const teak_status status = cursor_.seek(slice(prefix_), how, &entry);
  return fetch(status, entry, direction, record, not_found);
}

void Scan::push_condition(const COND *condition) {
  // The server pushes a condition again for each scan of a join, and does not begin a scan of a range again.
  end_filter();
  filter_.reset();
  condition_ = condition;
  if (condition == nullptr) {
    is_noted_ = false;
    return;
  }
  const LEX &lex = *open_.thd()->lex;
  const bool is_explained = (lex.describe & DESCRIBE_EXTENDED) || lex.explain_json || lex.analyze_stmt;
  if (is_explained && !is_noted_) note_condition();
}

void Scan::end_filter() {
  cursor_.set_filter(nullptr);
  range_rows_ = 0;
}

bool Scan::may_filter() const {
  THD *thd = open_.thd();
  return condition_ != nullptr && !locks_.locking() && session_condition_pushdown(thd) &&
         open_.server().stats.records >= FILTERED_ROWS_MIN && thd->lex->limit_rows_examined == nullptr;
}

/* Adds a note on the parts of the condition by which a scan passes over pages, if the table is scanned. */
void Scan::note_condition() try {
  is_noted_ = true;
  const Share &share = *open_.share();
  ScanFilter filter(open_.table(), share.rows(), share.primary());
  if (!may_filter() || !filter.open(share.table(), condition_)) return;
  THD *thd = open_.thd();
  StringBuffer<512> text(system_charset_info);
  text.append(STRING_WITH_LEN("TEAK: a scan of `"));
  text.append(open_.table()->alias);
  text.append(STRING_WITH_LEN("` passes over pages in which no row matches: "));
  filter.describe(&text);
  // Each partition comes here.
  Diagnostics_area::Sql_condition_iterator conditions = thd->get_stmt_da()->sql_conditions();
  while (const Sql_condition *earlier = conditions++)
    if (strcmp(earlier->get_message_text(), text.c_ptr_safe()) == 0) return;
  push_warning(thd, Sql_condition::WARN_LEVEL_NOTE, ER_YES, text.c_ptr_safe());
} catch (const std::bad_alloc &) {
  // There is no note.
}

/* Lets the cursor pass over pages, after the first row of the table, or some rows of ranges. */
void Scan::begin_filter(const uchar *record) try {
  TABLE *table = open_.table();
  // Conditions of strings are evaluated in this record.
  if (record != table->record[0] || !may_filter()) return;
  if (filter_ == nullptr) {
    const Share &share = *open_.share();
    auto filter = std::make_unique<ScanFilter>(table, share.rows(), share.primary());
    if (!filter->open(share.table(), condition_)) {
      condition_ = nullptr;
      return;
    }
    filter_ = std::move(filter);
  }
  cursor_.set_filter(filter_->engine_filter());
} catch (const std::bad_alloc &) {
  // The scan returns all rows.
}

int Scan::next_row(uchar *record) {
  teak_row entry;
  const teak_status status = started_ ? cursor_.next(&entry) : cursor_.first(&entry);
  if (!started_) begin_filter(record);
  started_ = true;
  return fetch(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

/* ---- lookups ---- */

int Scan::read(uchar *record, const uchar *image, key_part_map parts, enum ha_rkey_function how) {
  started_ = true;
  if (!in_range_) open_.server().in_range_check_pushed_down = false;
  const teak_status status = set_range_bounds();
  if (status != TEAK_OK) return open_.failure(status);
  prefix_.clear();
  if (image != nullptr) codec().encode_prefix(image, parts, &prefix_);
  if (prefix_.failed()) return open_.out_of_memory();

  switch (how) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
      return read_exact(record, image, parts, Direction::Forward);
    case HA_READ_PREFIX_LAST:
      return read_exact(record, image, parts, Direction::Backward);
    case HA_READ_KEY_OR_NEXT:
      return seek(TEAK_SEEK_AT_OR_AFTER, Direction::Forward, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_AFTER_KEY:
      return seek(TEAK_SEEK_AFTER_PREFIX, Direction::Forward, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_BEFORE_KEY:
      return seek(TEAK_SEEK_BEFORE, Direction::Backward, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      return seek(TEAK_SEEK_AT_OR_BEFORE_PREFIX, Direction::Backward, record, HA_ERR_KEY_NOT_FOUND);
    default:
      return HA_ERR_WRONG_COMMAND;
  }
}

/* Reads the rows that are equal to the image in its parts, starting with the first or the last one. */
int Scan::read_exact(uchar *record, const uchar *image, key_part_map parts, Direction direction) {
  const Share::Key &key = open_.share()->key(key_);
  if (key.unique && (parts & key.all_parts) == key.all_parts && !(key.nullable && codec().image_has_null(image, parts)))
    return read_unique(record);

  exact_ = Exact::Range;
  teak_row entry;
  teak_status status = parts == key.all_parts ? cursor_.set_prefix(slice(prefix_)) : set_prefix_bounds();
  if (status == TEAK_OK) status = direction == Direction::Backward ? cursor_.last(&entry) : cursor_.first(&entry);
  return fetch(status, entry, direction, record, HA_ERR_KEY_NOT_FOUND);
}

/* For a prefix that is not the encoding of exactly the columns of the index. */
teak_status Scan::set_prefix_bounds() {
  prefix_end_.clear();
  prefix_end_.append(prefix_.data(), prefix_.size());
  const bool bounded = to_prefix_successor(&prefix_end_);
  if (prefix_end_.failed()) return TEAK_OUT_OF_MEMORY;
  return cursor_.set_bounds(slice(prefix_), bounded ? slice(prefix_end_) : UNBOUNDED);
}

int Scan::read_unique(uchar *record) {
  exact_ = Exact::Found;
  if (key_ == open_.share()->primary_key()) {
    // REPLACE and ON DUPLICATE KEY UPDATE read the conflicting row of a table with partitions by its key.
    const int error = fetcher_.fetch_conflicting(slice(prefix_), record);
    if (error != RowFetcher::SKIP) return error;
  }
  // While the lookup waited for a row lock, one transaction may have changed the key of that row, and another one may
  // have inserted the key. Then the lookup is repeated. A plain read of a transaction that is past its snapshot is not
  // repeated: it would find the same entry, because the snapshot does not change.
  const int attempts = !locks_.locking() && open_.session()->is_past_snapshot() ? 1 : ATTEMPTS_MAX;
  int error = RowFetcher::SKIP;
  for (int attempt = 0; error == RowFetcher::SKIP && attempt < attempts; attempt++) {
    teak_row entry;
    const teak_status status = cursor_.get(slice(prefix_), &entry);
    error = fetch(status, entry, Direction::None, record, HA_ERR_KEY_NOT_FOUND);
  }
  if (error == RowFetcher::SKIP && (locks_.skip_locked() || attempts == 1)) error = HA_ERR_KEY_NOT_FOUND;
  if (error == HA_ERR_KEY_NOT_FOUND) exact_ = Exact::Missed;
  return error != RowFetcher::SKIP ? error : open_.corrupt("an entry of a unique key is not of its row");
}

/* The next row of a range. */
teak_status Scan::next_of_range(const uchar *record, teak_row *entry) {
  if (!reads_secondary_ && ++range_rows_ == ROWS_BEFORE_FILTER) begin_filter(record);
  return cursor_.next(entry);
}

int Scan::next_same(uchar *record) {
  if (exact_ != Exact::Range) return HA_ERR_END_OF_FILE;
  teak_row entry;
  const teak_status status = next_of_range(record, &entry);
  return fetch(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

/* HANDLER ... READ NEXT and loose index scans (QUICK_GROUP_MIN_MAX_SELECT, one row of each group) may continue after
   an exact lookup, even if the lookup found no row. */
int Scan::next(uchar *record) {
  teak_row entry;
  if (exact_ == Exact::Range || exact_ == Exact::Missed) {
    const int error = next_same(record);
    if (error != HA_ERR_END_OF_FILE) return error;
    const teak_status status = set_range_bounds();
    if (status != TEAK_OK) return open_.failure(status);
    return seek(TEAK_SEEK_AFTER_PREFIX, Direction::Forward, record, HA_ERR_END_OF_FILE);
  }
  const teak_status status = next_of_range(record, &entry);
  return fetch(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

int Scan::previous(uchar *record) {
  if (exact_ != Exact::Missed) {
    teak_row entry;
    const teak_status status = cursor_.previous(&entry);
    const int error = fetch(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
    if (error != HA_ERR_END_OF_FILE || exact_ != Exact::Range) return error;
  }
  const teak_status status = set_range_bounds();
  if (status != TEAK_OK) return open_.failure(status);
  return seek(TEAK_SEEK_BEFORE, Direction::Backward, record, HA_ERR_END_OF_FILE);
}

int Scan::first(uchar *record) {
  started_ = true;
  if (!in_range_) open_.server().in_range_check_pushed_down = false;
  teak_row entry;
  teak_status status = set_range_bounds();
  if (status == TEAK_OK) status = cursor_.first(&entry);
  return fetch(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

int Scan::last(uchar *record) {
  started_ = true;
  teak_row entry;
  teak_status status = set_range_bounds();
  if (status == TEAK_OK) status = cursor_.last(&entry);
  const int error = fetch(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
  if (error != HA_ERR_END_OF_FILE || !cursor_.bounded()) return error;
  // This may be the last of several ranges and empty. The server must not get "end of file", from which it concludes
  // that the table is empty.
  lower_ = upper_ = UNBOUNDED;
  status = cursor_.set_bounds(UNBOUNDED, UNBOUNDED);
  if (status == TEAK_OK) status = cursor_.last(&entry);
  return fetch(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
}

/* ---- ranges ---- */

/* Sets the bounds of the range that the server will read, if any. Ends an exact lookup. */
teak_status Scan::set_range_bounds() {
  if (!in_range_ && !has_range_) lower_ = upper_ = UNBOUNDED;
  has_range_ = false;
  exact_ = Exact::No;
  end_filter();
  prefetcher_.restart();
  if (!cursor_.bounded() && lower_.data == nullptr && upper_.data == nullptr) return TEAK_OK;
  return cursor_.set_bounds(lower_, upper_);
}

int Scan::begin_range(const key_range *end) {
  lower_ = upper_ = UNBOUNDED;
  if (end != nullptr && !encode_bound(codec(), *end, RangeEnd::Upper, &upper_bytes_, &upper_))
    return open_.out_of_memory();
  in_range_ = true;
  // The engine returns no rows beyond the bound, so the server need not compare keys.
  open_.server().in_range_check_pushed_down = end == nullptr || upper_.data != nullptr;
  return 0;
}

int Scan::prepare_range(const key_range *start, const key_range *end) {
  lower_ = upper_ = UNBOUNDED;
  if (start != nullptr && !encode_bound(codec(), *start, RangeEnd::Lower, &lower_bytes_, &lower_))
    return open_.out_of_memory();
  if (end != nullptr && !encode_bound(codec(), *end, RangeEnd::Upper, &upper_bytes_, &upper_))
    return open_.out_of_memory();
  has_range_ = true;
  return 0;
}

}  // namespace teak
