/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* From an entry of an index to the server's record. A secondary entry leads to its row by the primary key. The entry and
   the row may be of different moments: when the statement locks, the row is locked and read in its newest version; dirty
   reads see each index as it is; and a transaction sees its own version of a row that another one had changed after the
   snapshot was taken, beside the entries of before. An entry that is not of its row is skipped. */

#include "handler/ha_teak.h"
#include "table/virtual_columns.h"

namespace teak {

static bool same_bytes(teak_slice left, teak_slice right) {
  return left.len == right.len && memcmp(left.data, right.data, left.len) == 0;
}

/* Whether the scan's entries themselves hold every column that the statement reads. */
bool ha_teak::covering() {
  if (locking() || session_->is_past_snapshot()) return false;
  if (keyread == scan_key_) return share_->key(scan_key_).decodable_columns.holds(table->read_set);
  // A multi-range read's second handler: its rows are fetched later, by position.
  return positions_only_ && share_->primary().all_decodable();
}

void ha_teak::remember_primary(teak_slice primary) {
  if (share_->hidden_primary() && primary.len == sizeof(row_id_)) memcpy(row_id_, primary.data, sizeof(row_id_));
}

bool ha_teak::decode_row(teak_slice primary, teak_slice value, uchar *record, bool all_columns) {
  blobs_.clear();
  remember_primary(primary);
  bool decoded = share_->rows().decode(value.data, value.len, primary.data, primary.len, record,
                                       all_columns ? nullptr : table->read_set, &blobs_);
  // An UPDATE to NULL compares the bytes that stand in such a column, too.
  if (all_columns) share_->write_null_images(record);
  return decoded;
}

int ha_teak::deliver(const teak_row &entry, uchar *record) {
  if (scan_key_ != MAX_KEY && scan_key_ != share_->primary_key()) return deliver_by_secondary(entry, record);
  row_cursor_ = &scan_;
  return decode_row(entry.key, entry.value, record, all_columns_) ? 0 : corrupt("a row is malformed");
}

/* What an entry itself holds of the columns that the statement reads. */
bool ha_teak::decode_entry(const Share::Key &key, const teak_row &entry, const Share::EntryRest &rest, uchar *record) {
  return key.codec->decode(entry.key.data, entry.key.len, record, table->read_set) &&
         (key.originals == nullptr || rest.originals.len == 0 ||
          key.originals->decode(rest.originals.data, rest.originals.len, record, table->read_set)) &&
         share_->primary().decode(rest.primary.data, rest.primary.len, record, table->read_set);
}

int ha_teak::deliver_by_secondary(const teak_row &entry, uchar *record) {
  const Share::Key &key = share_->key(scan_key_);
  Share::EntryRest rest;
  if (!share_->rest_of_entry(scan_key_, entry, &rest)) return corrupt("an entry of a key is malformed");
  // An entry that was written without the originals leads to the row, whatever is asked.
  const bool complete = key.originals == nullptr || rest.originals.len != 0;
  const bool has_condition = pushed_idx_cond != nullptr && pushed_idx_cond_keyno == scan_key_;

  if (has_condition && complete) {
    // The condition looks at the columns where they stand in the first record, whichever is being read.
    if (!decode_entry(key, entry, rest, table->record[0])) return corrupt("an entry of a key is malformed");
    if (int refused = check_pushed_condition()) return refused;
  }
  if (pushed_rowid_filter != nullptr && rowid_filter_is_active)
    if (int refused = check_pushed_filter(rest.primary)) return refused;

  if (complete && covering()) {
    remember_primary(rest.primary);
    return decode_entry(key, entry, rest, record) ? 0 : corrupt("an entry of a key is malformed");
  }

  teak_row row;
  row_cursor_ = &rows_;
  teak_status status = rows_.get(rest.primary, &row);
  const bool may_differ =
      locking() || session_->is_past_snapshot() || thd_tx_isolation(ha_thd()) == ISO_READ_UNCOMMITTED;
  if (status == TEAK_NOT_FOUND) return may_differ ? SKIP : corrupt("a key has an entry without a row");
  if (status != TEAK_OK) return failure(status);
  // Virtual columns of such an entry are computed from the row's others.
  const bool computes = !complete && key.has_virtual_column;
  if (!decode_row(row.key, row.value, record, all_columns_ || may_differ || computes))
    return corrupt("a row is malformed");
  if (may_differ && !entry_is_of_row(entry, record, &status)) {
    rows_.unlock();
    return status == TEAK_OK ? SKIP : failure(status);
  }
  // With keyread the server computes no virtual columns: they come from the entry.
  if (key.has_virtual_column && keyread_enabled() && !decode_entry(key, entry, rest, record))
    return corrupt("an entry of a key is malformed");
  if (computes && compute_scanned_columns(record)) return HA_ERR_OUT_OF_MEM;
  if (has_condition && !complete) {
    if (record != table->record[0]) {
      if (!decode_row(row.key, row.value, table->record[0], computes)) return corrupt("a row is malformed");
      if (computes && compute_scanned_columns(table->record[0])) return HA_ERR_OUT_OF_MEM;
    }
    return check_pushed_condition();
  }
  return 0;
}

/* Computes the scanned key's virtual columns in a record that holds the others. True: an error. */
bool ha_teak::compute_scanned_columns(uchar *record) {
  const my_ptrdiff_t away = record - table->record[0];
  auto move = [this](my_ptrdiff_t distance) {
    for (Field **field = table->field; distance != 0 && *field != nullptr; field++)
      (*field)->move_field_offset(distance);
  };
  move(away);
  const bool failed = compute_virtual_columns(table, scan_key_, true);
  move(-away);
  return failed;
}

/* Whether the row has this entry. */
bool ha_teak::entry_is_of_row(const teak_row &entry, uchar *record, teak_status *status) {
  const Share::Key &key = share_->key(scan_key_);
  *status = TEAK_OK;
  if (!key.has_virtual_column || !locking()) {
    // The record does not hold the virtual columns' values yet.
    if (key.has_virtual_column && compute_scanned_columns(record)) {
      *status = TEAK_OUT_OF_MEMORY;
      return false;
    }
    compared_key_.clear();
    key.codec->encode_record(record, &compared_key_);
    return compared_key_.size() <= entry.key.len &&
           memcmp(compared_key_.data(), entry.key.data, compared_key_.size()) == 0;
  }
  // Nobody else can change the entries of a locked row.
  teak_row again;
  probe_.bind(session_, share_->table(), share_->index_of(scan_key_), lock_mode_, manner());
  *status = probe_.get(entry.key, &again);
  Share::EntryRest before, now;
  if (*status == TEAK_OK)
    return share_->rest_of_entry(scan_key_, entry, &before) && share_->rest_of_entry(scan_key_, again, &now) &&
           same_bytes(before.primary, now.primary);
  if (*status == TEAK_NOT_FOUND) *status = TEAK_OK;
  return false;
}

/* Fetches and compares until an entry is of a row, moving the scan on where it is not. `nothing` is the error when there
   is none. */
int ha_teak::scan(teak_status status, teak_row entry, Direction direction, uchar *record, int nothing) {
  for (;;) {
    if (status == TEAK_NOT_FOUND) return nothing;
    if (status != TEAK_OK) return failure(status);
    int error = deliver(entry, record);
    if (error != SKIP && error != REJECTED) return error;
    if (direction == Direction::None) return error == REJECTED ? nothing : error;
    if (thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
    status = direction == Direction::Forward ? scan_.next(&entry) : scan_.previous(&entry);
  }
}

}  // namespace teak
