/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_fetcher.h. */

#include "handler/row_fetcher.h"

#include <algorithm>

#include "handler/row_keys.h"
#include "table/virtual_columns.h"

namespace teak {

void RowFetcher::begin_reads() {
  all_columns_ = must_read_all_columns();
  if (all_columns_ && open_.share()->has_indexed_virtual_column()) {
    // Computes only the virtual columns that a key needs, because computing another one may fail.
    const TABLE &table = *open_.table();
    for (Field **field = table.vfield; *field != nullptr; field++)
      if ((*field)->flags & (PART_KEY_FLAG | PART_INDIRECT_KEY_FLAG))
        bitmap_set_bit(table.read_set, (*field)->field_index);
  }
  is_rows_bound_ = false;
  looked_up_.clear();
  looks_up_all_ = false;
}

/* Whether all columns must be read. A row that may be written back must be complete, even if the statement uses few
   columns. */
bool RowFetcher::must_read_all_columns() {
  if (locks_.mode() != TEAK_LOCK_EXCLUSIVE) return false;
  switch (thd_sql_command(open_.thd())) {
    case SQLCOM_SELECT:
      return false;
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
      // DELETE may write history rows, and the remaining part of a row after DELETE FOR PORTION OF. An index that ALTER
      // TABLE builds needs the columns of its key to delete the entry.
      return open_.table()->versioned() || open_.table_share()->period.name || open_.share()->building() != nullptr;
    default:
      return true;
  }
}

void RowFetcher::reset() {
  constexpr size_t KEEP_BYTES = 1 << 20;
  rows_.close();
  is_rows_bound_ = false;
  probe_.close();
  blobs_.clear(KEEP_BYTES);
  all_columns_ = positions_only_ = false;
}

/* Whether entries match their rows, and the rows need no locks, so that the columns of an entry can be returned. */
bool RowFetcher::matches_row() const { return !locks_.locking() && !open_.session()->is_past_snapshot(); }

/* Whether the scan reads no rows, because its entries contain every column that the statement reads (covering index). */
bool RowFetcher::is_covering() {
  if (!matches_row()) return false;
  if (open_.server().keyread == key_) return open_.share()->key(key_).decodable_columns.holds(open_.table()->read_set);
  // Without keyread, positions_only_ is set in the second handler of a multi-range read: the server fetches the rows
  // later, by position.
  return positions_only_ && open_.share()->primary().all_decodable();
}

bool RowFetcher::decode_row(const teak_row &row, uchar *record, bool all_columns) {
  blobs_.clear();
  open_.remember_row_id(row.key);
  const Share &share = *open_.share();
  const bool decoded = share.rows().decode(row.value.data, row.value.len, row.key.data, row.key.len, record,
                                           all_columns ? nullptr : open_.table()->read_set, &blobs_);
  // For an UPDATE to NULL, the server also compares the bytes of a NULL column in the record.
  if (all_columns) share.write_null_images(record);
  return decoded;
}

int RowFetcher::fetch(const teak_row &entry, uchar *record) {
  if (key_ != MAX_KEY && key_ != open_.share()->primary_key()) return fetch_by_secondary(entry, record);
  read_by_primary_ = false;
  if (entry.value.data == nullptr || !has_columns(chosen_)) return fetch_whole(entry, record);
  return decode_row(entry, record, all_columns_) ? 0 : open_.corrupt("a row is malformed");
}

bool RowFetcher::needs_only_key() const {
  const Share &share = *open_.share();
  if (key_ != MAX_KEY && key_ != share.primary_key()) return false;
  if (locks_.locking() || all_columns_) return false;
  const MY_BITMAP *read_set = open_.table()->read_set;
  if (share.primary_key() == MAX_KEY) return bitmap_is_clear_all(read_set);
  return share.key(share.primary_key()).decodable_columns.holds(read_set);
}

const Columns &RowFetcher::choose_columns(bool may_change) {
  chosen_.clear();
  // Without a choice, the cursor returns all columns, or the same error.
  const Columns *columns = &Cursor::ALL_COLUMNS;
  if (!may_change && !locks_.locking() && !all_columns_ && (key_ == MAX_KEY || key_ == open_.share()->primary_key()))
    (void)add_read_set(&chosen_, &columns);
  return *columns;
}

/* Adds the read set to the columns chosen before, and sets `columns` to those that a cursor must return. `chosen` is then
   empty if these are all. */
teak_status RowFetcher::add_read_set(std::vector<my_bitmap_map> *chosen, const Columns **columns) {
  const MY_BITMAP *read_set = open_.table()->read_set;
  const size_t words = no_words_in_map(read_set);
  const RowCodec &rows = open_.share()->rows();
  *columns = &Cursor::ALL_COLUMNS;
  if (chosen->empty()) {
    // Most statements need the same columns as the last one.
    if (needed_ != nullptr &&
        std::equal(needed_by_.begin(), needed_by_.end(), read_set->bitmap, read_set->bitmap + words)) {
      *chosen = needed_by_;
      *columns = &needed_;
      return TEAK_OK;
    }
    if (rows.needs_all(read_set->bitmap, words)) return TEAK_OK;
  }
  chosen->resize(words);
  for (size_t i = 0; i < words; i++) (*chosen)[i] |= read_set->bitmap[i];
  if (rows.needs_all(chosen->data(), words)) {
    chosen->clear();
    return TEAK_OK;
  }
  if (needed_ == nullptr || *chosen != needed_by_) {
    teak_columns *needed = nullptr;
    const std::vector<uint64_t> bits = rows.columns_for(*chosen);
    const teak_status status =
        teak_columns_new(open_.share()->table(), 0, rows.beginning(), bits.data(), bits.size(), &needed);
    if (status != TEAK_OK) {
      chosen->clear();
      return status;
    }
    needed_ = Columns(needed, teak_columns_free);
    needed_by_ = *chosen;
  }
  *columns = &needed_;
  return TEAK_OK;
}

/* Whether the cursor for which this set of columns was chosen, which is empty for all columns, returns all columns that the
   statement reads. */
bool RowFetcher::has_columns(const std::vector<my_bitmap_map> &chosen) const {
  const my_bitmap_map *read = open_.table()->read_set->bitmap;
  for (size_t i = 0; i < chosen.size(); i++)
    if ((read[i] & ~chosen[i]) != 0) return false;
  return true;
}

/* Reads a row by its primary key. `all_columns`: the caller needs columns that the statement does not read. While the
   server sorts, a statement reads other columns than in its other parts. */
teak_status RowFetcher::look_up(teak_slice primary, bool all_columns, teak_row *row) {
  if (!is_rows_bound_) {
    rows_.bind(open_.session(), open_.share()->table(), 0, locks_.mode(), locks_.cursor_options());
    rows_.count_into(open_.server().handler_stats);
    is_rows_bound_ = true;
  }
  if (all_columns || all_columns_ || locks_.locking()) {
    if (!looked_up_.empty()) rows_.set_columns(Cursor::ALL_COLUMNS);
    looked_up_.clear();
    looks_up_all_ = true;
  } else if (!looks_up_all_ && (looked_up_.empty() || !has_columns(looked_up_))) {
    const Columns *columns;
    const teak_status status = add_read_set(&looked_up_, &columns);
    if (status != TEAK_OK) return status;
    rows_.set_columns(*columns);
    looks_up_all_ = looked_up_.empty();
  }
  return rows_.get(primary, row);
}

/* Fetches a row whose value the scan has not read, because it is large, or not wholly. */
int RowFetcher::fetch_whole(const teak_row &entry, uchar *record) {
  if (entry.value.data == nullptr && needs_only_key()) {
    open_.remember_row_id(entry.key);
    const MY_BITMAP *read_set = open_.table()->read_set;
    const bool decoded = bitmap_is_clear_all(read_set) ||
                         open_.share()->primary().decode(entry.key.data, entry.key.len, record, read_set);
    return decoded ? 0 : open_.corrupt("a row is malformed");
  }
  // The statement reads more columns than when the scan began.
  teak_row row;
  const teak_status status = look_up(entry.key, false, &row);
  if (status == TEAK_NOT_FOUND) return SKIP;  // deleted since, under READ UNCOMMITTED
  if (status != TEAK_OK) return open_.failure(status);
  return decode_row(row, record, all_columns_) ? 0 : open_.corrupt("a row is malformed");
}

int RowFetcher::fetch_by_position(const uchar *position, uchar *record) {
  teak_row row;
  uint8_t row_id[KeyCodec::HIDDEN_ROW_ID_BYTES];
  const teak_slice primary = positions_.primary_of(position, row_id);
  const int error = fetch_conflicting(primary, record);
  if (error != SKIP) return error;
  read_by_primary_ = true;
  is_conflicting_row_ = false;
  const teak_status status = look_up(primary, false, &row);
  if (status == TEAK_NOT_FOUND) return HA_ERR_KEY_NOT_FOUND;
  if (status != TEAK_OK) return open_.failure(status);
  return decode_row(row, record, all_columns_) ? 0 : open_.corrupt("a row is malformed");
}

int RowFetcher::fetch_conflicting(teak_slice primary, uchar *record) {
  teak_row row;
  if (locks_.mode() != TEAK_LOCK_EXCLUSIVE || !conflicting_row_.take(primary, &row)) return SKIP;
  read_by_primary_ = is_conflicting_row_ = true;
  return decode_row(row, record, all_columns_) ? 0 : open_.corrupt("a row is malformed");
}

/* Decodes the columns that the statement reads and the entry contains. */
bool RowFetcher::decode_entry(const Share::Key &key, const teak_row &entry, const Share::EntryRest &rest,
                              uchar *record) {
  const MY_BITMAP *read_set = open_.table()->read_set;
  return key.codec->decode(entry.key.data, entry.key.len, record, read_set) &&
         (key.originals == nullptr || rest.originals.len == 0 ||
          key.originals->decode(rest.originals.data, rest.originals.len, record, read_set)) &&
         open_.share()->primary().decode(rest.primary.data, rest.primary.len, record, read_set);
}

int RowFetcher::fetch_by_secondary(const teak_row &entry, uchar *record) {
  const Share::Key &key = open_.share()->key(key_);
  const handler &server = open_.server();
  Share::EntryRest rest;
  if (!open_.share()->rest_of_entry(key_, entry, &rest)) return open_.corrupt("an entry of a key is malformed");
  // An entry without originals is not sufficient to decode the key's columns.
  const bool complete = key.clustering ? !key.has_virtual_column : key.originals == nullptr || rest.originals.len != 0;

  if (complete && has_pushed_condition()) {
    // The condition always reads the columns from the row buffer `record[0]`.
    if (!decode_entry(key, entry, rest, open_.table()->record[0]))
      return open_.corrupt("an entry of a key is malformed");
    if (int rejected = check_pushed_condition()) return rejected;
  }
  if (server.pushed_rowid_filter != nullptr && server.rowid_filter_is_active)
    if (int rejected = check_pushed_filter(rest.primary)) return rejected;

  if (key.clustering && matches_row()) return fetch_clustering(key, rest, record);
  if (complete && is_covering()) {
    open_.remember_row_id(rest.primary);
    return decode_entry(key, entry, rest, record) ? 0 : open_.corrupt("an entry of a key is malformed");
  }
  return fetch_row_of_entry(entry, rest, complete, record);
}

/* The entry contains the row. */
int RowFetcher::fetch_clustering(const Share::Key &key, const Share::EntryRest &rest, uchar *record) {
  read_by_primary_ = false;
  teak_row row = {};
  row.key = rest.primary;
  row.value = rest.row;
  // With keyread the server does not compute virtual columns.
  const bool computes = key.has_virtual_column && open_.server().keyread_enabled();
  if (!decode_row(row, record, all_columns_ || computes))
    return open_.corrupt("a row in a clustering key is malformed");
  return computes && compute_key_columns(record) ? HA_ERR_OUT_OF_MEM : 0;
}

int RowFetcher::fetch_row_of_entry(const teak_row &entry, const Share::EntryRest &rest, bool complete, uchar *record) {
  const Share::Key &key = open_.share()->key(key_);
  uchar *const first_record = open_.table()->record[0];
  teak_row row;
  read_by_primary_ = true;
  is_conflicting_row_ = false;
  const bool may_differ =
      locks_.locking() || open_.session()->is_past_snapshot() || thd_tx_isolation(open_.thd()) == ISO_READ_UNCOMMITTED;
  // The virtual columns of an incomplete entry are computed from the row's other columns.
  const bool computes = !complete && key.has_virtual_column;
  const bool all_columns = all_columns_ || may_differ || computes;
  teak_status status;
  {
    const PrefetchWindow::Fetch fetch(window_);
    status = look_up(rest.primary, all_columns, &row);
  }
  if (status == TEAK_NOT_FOUND) return may_differ ? SKIP : open_.corrupt("a key has an entry without a row");
  if (status != TEAK_OK) return open_.failure(status);
  if (!decode_row(row, record, all_columns)) return open_.corrupt("a row is malformed");
  if (may_differ && !row_has_entry(entry, record, &status)) {
    rows_.unlock();
    return status == TEAK_OK ? SKIP : open_.failure(status);
  }
  // With keyread the server does not compute virtual columns: they are decoded from the entry.
  if (key.has_virtual_column && open_.server().keyread_enabled() && !decode_entry(key, entry, rest, record))
    return open_.corrupt("an entry of a key is malformed");
  if (computes && compute_key_columns(record)) return HA_ERR_OUT_OF_MEM;
  if (complete || !has_pushed_condition()) return 0;
  if (record != first_record) {
    if (!decode_row(row, first_record, computes)) return open_.corrupt("a row is malformed");
    if (computes && compute_key_columns(first_record)) return HA_ERR_OUT_OF_MEM;
  }
  return check_pushed_condition();
}

/* ---- conditions and filters that the server has pushed down ---- */

bool RowFetcher::has_pushed_condition() const {
  return open_.server().pushed_idx_cond != nullptr && open_.server().pushed_idx_cond_keyno == key_;
}

/* Evaluates the pushed condition on the table's first record. Returns 0 or REJECTED. The cursor's bounds already
   limit the range. */
int RowFetcher::check_pushed_condition() {
  THD *thd = open_.table()->in_use;
  status_var_increment(thd->status_var.ha_icp_attempts);
  thd->check_limit_rows_examined();
  if (!open_.server().pushed_idx_cond->val_bool()) return REJECTED;
  status_var_increment(thd->status_var.ha_icp_match);
  thd->check_limit_rows_examined();
  return 0;
}

int RowFetcher::check_pushed_filter(teak_slice primary) {
  handler &server = open_.server();
  positions_.store(primary, server.ref);
  return server.pushed_rowid_filter->check(reinterpret_cast<char *>(server.ref)) ? 0 : REJECTED;
}

/* ---- comparing entries with rows ---- */

/* Computes the virtual columns of the scanned key in a record that has the other columns. True: an error. */
bool RowFetcher::compute_key_columns(uchar *record) {
  TABLE *table = open_.table();
  const my_ptrdiff_t distance = record - table->record[0];
  auto move_fields = [table](my_ptrdiff_t by) {
    for (Field **field = table->field; by != 0 && *field != nullptr; field++) (*field)->move_field_offset(by);
  };
  move_fields(distance);
  const bool failed = compute_virtual_columns(table, key_, true);
  move_fields(-distance);
  return failed;
}

bool RowFetcher::row_has_entry(const teak_row &entry, uchar *record, teak_status *status) {
  const Share &share = *open_.share();
  const Share::Key &key = share.key(key_);
  *status = TEAK_OK;
  if (!key.has_virtual_column || !locks_.locking()) {
    // The record does not have the values of virtual columns yet.
    if (key.has_virtual_column && compute_key_columns(record)) {
      *status = TEAK_OUT_OF_MEMORY;
      return false;
    }
    compared_key_.clear();
    key.codec->encode_record(record, &compared_key_);
    return compared_key_.size() <= entry.key.len &&
           memcmp(compared_key_.data(), entry.key.data, compared_key_.size()) == 0;
  }
  // Other transactions cannot change the entries of a locked row.
  teak_row again;
  probe_.bind(open_.session(), share.table(), share.index_of(key_), locks_.mode(), locks_.cursor_options());
  *status = probe_.get(entry.key, &again);
  Share::EntryRest before, now;
  if (*status == TEAK_OK)
    return share.rest_of_entry(key_, entry, &before) && share.rest_of_entry(key_, again, &now) &&
           same_bytes(before.primary, now.primary);
  if (*status == TEAK_NOT_FOUND) *status = TEAK_OK;
  return false;
}

}  // namespace teak
