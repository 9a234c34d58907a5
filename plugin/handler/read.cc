/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Scans of an index and of the table, and lookups by position. Bounds are given to the engine, not only compared: a
   locking scan must not touch what lies beyond its range. */

#include "handler/ha_teak.h"

namespace teak {

namespace {

/* Turns a prefix into the least bytes greater than every string that starts with it. False: there are none. */
bool pass_prefix(ByteBuffer *prefix) {
  size_t length = prefix->size();
  while (length != 0 && prefix->data()[length - 1] == 0xFF) length--;
  if (length == 0) return false;
  prefix->truncate(length);
  prefix->data()[length - 1]++;
  return true;
}

constexpr int ATTEMPTS_MAX = 100;

}  // namespace

/* The server's own checks for uniqueness look for rows before one is written: none may come in between, whatever the
   isolation. */
static bool is_checked_by_server(const KEY &key) {
  return key.algorithm == HA_KEY_ALG_LONG_HASH || key.without_overlaps;
}

void ha_teak::bind_scan(uint key) {
  scan_key_ = key;
  Cursor::Manner how = manner();
  how.marks_ranges = key != MAX_KEY && lock_mode_ == TEAK_LOCK_EXCLUSIVE && is_checked_by_server(table->key_info[key]);
  scan_.bind(session_, share_->table(), key == MAX_KEY ? 0 : share_->index_of(key), lock_mode_, how);
  scan_.set_semi_consistent(semi_consistent_);
  scan_.count_into(handler_stats);
  scan_started_ = false;
  set_no_bounds();
}

void ha_teak::bind_rows() {
  rows_.bind(session_, share_->table(), 0, lock_mode_, manner());
  rows_.count_into(handler_stats);
}

void ha_teak::set_no_bounds() {
  exact_ = exact_bounds_ = exact_by_get_ = exact_missed_ = false;
  in_read_range_ = has_range_ = false;
  in_range_check_pushed_down = false;
  range_lower_ = range_upper_ = UNBOUNDED;
}

/* What is read to be written back must be read whole, whatever columns the statement names. */
void ha_teak::prepare_for_write() {
  all_columns_ = false;
  if (lock_mode_ != TEAK_LOCK_EXCLUSIVE) return;
  switch (thd_sql_command(ha_thd())) {
    case SQLCOM_SELECT:
      return;
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
      // History rows and rest rows of a period are written by DELETE.
      // A key that ALTER TABLE builds needs its columns to delete their entry.
      if (!table->versioned() && !table_share->period.name && share_->building() == nullptr) return;
      break;
    default:
      break;
  }
  all_columns_ = true;
  if (share_->has_indexed_virtual_column())
    // Those of keys alone: another one may have a value that is an error.
    for (Field **field = table->vfield; *field != nullptr; field++)
      if ((*field)->flags & (PART_KEY_FLAG | PART_INDIRECT_KEY_FLAG))
        bitmap_set_bit(table->read_set, (*field)->field_index);
}

/* One end of a range of a key, as the engine's cursors have it: at or after `lower`, before `upper`. */
teak_slice ha_teak::encode_bound(uint key, const key_range &range, bool is_lower, ByteBuffer *bytes) const {
  bytes->clear();
  share_->codec(key).encode_prefix(range.key, range.keypart_map, bytes);
  const bool after = is_lower ? range.flag == HA_READ_AFTER_KEY : range.flag != HA_READ_BEFORE_KEY;
  const bool bounded = !after || pass_prefix(bytes);
  return bounded && !bytes->failed() ? slice(*bytes) : UNBOUNDED;
}

/* ---- the whole table ---- */

int ha_teak::rnd_init(bool scan) {
  if (without_rollback() && session_ != nullptr)
    if (int error = session_->use()) return error;
  settle_locks();
  prepare_for_write();
  if (scan) bind_scan(MAX_KEY);
  bind_rows();
  return 0;
}

int ha_teak::rnd_end() {
  set_no_bounds();
  return 0;
}

int ha_teak::rnd_next(uchar *record) {
  teak_row entry;
  teak_status status = scan_started_ ? scan_.next(&entry) : scan_.first(&entry);
  scan_started_ = true;
  return scan(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

/* ---- by position ---- */

void ha_teak::store_position(teak_slice primary, uchar *position) const {
  if (share_->hidden_primary()) {
    memcpy(position, primary.data + KeyCodec::HIDDEN_ROW_ID_BYTES - POSITION_OF_ROW_ID_BYTES, POSITION_OF_ROW_ID_BYTES);
    return;
  }
  // Positions are compared, hashed and stored whole: what lies behind the key must not vary.
  int2store(position, static_cast<uint16>(primary.len));
  memcpy(position + POSITION_LENGTH_BYTES, primary.data, primary.len);
  bzero(position + POSITION_LENGTH_BYTES + primary.len, ref_length - POSITION_LENGTH_BYTES - primary.len);
}

void ha_teak::position(const uchar *record) {
  if (share_->hidden_primary()) {
    store_position({row_id_, sizeof(row_id_)}, ref);
    return;
  }
  position_key_.clear();
  share_->primary().encode_record(record, &position_key_);
  if (position_key_.failed())
    bzero(ref, ref_length);  // finds no row
  else
    store_position(slice(position_key_), ref);
}

/* A hidden row id is put together in `row_id`. */
teak_slice ha_teak::primary_of_position(const uchar *position, uint8_t *row_id) const {
  if (!share_->hidden_primary()) return {position + POSITION_LENGTH_BYTES, uint2korr(position)};
  constexpr size_t high = KeyCodec::HIDDEN_ROW_ID_BYTES - POSITION_OF_ROW_ID_BYTES;
  bzero(row_id, high);
  memcpy(row_id + high, position, POSITION_OF_ROW_ID_BYTES);
  return {row_id, KeyCodec::HIDDEN_ROW_ID_BYTES};
}

int ha_teak::rnd_pos(uchar *record, uchar *position) {
  teak_row row;
  uint8_t row_id[KeyCodec::HIDDEN_ROW_ID_BYTES];
  row_cursor_ = &rows_;
  teak_status status = rows_.get(primary_of_position(position, row_id), &row);
  if (status == TEAK_NOT_FOUND) return HA_ERR_KEY_NOT_FOUND;
  if (status != TEAK_OK) return failure(status);
  return decode_row(row.key, row.value, record, all_columns_) ? 0 : corrupt("a row is malformed");
}

int ha_teak::cmp_ref(const uchar *left, const uchar *right) {
  if (share_->hidden_primary()) return memcmp(left, right, POSITION_OF_ROW_ID_BYTES);
  teak_slice a = primary_of_position(left, nullptr), b = primary_of_position(right, nullptr);
  int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
  return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

/* ---- an index ---- */

int ha_teak::index_init(uint key, bool) {
  active_index = key;
  settle_locks();
  prepare_for_write();
  bind_scan(key);
  bind_rows();
  return 0;
}

int ha_teak::index_end() {
  set_no_bounds();
  active_index = MAX_KEY;
  multi_range_.dsmrr_close();
  return 0;
}

/* All rows that agree with the image in its parts: from the first of them, or from the last. */
int ha_teak::read_exact(uchar *record, const uchar *image, key_part_map parts, bool from_last) {
  const Share::Key &key = share_->key(scan_key_);
  const KeyCodec &codec = share_->codec(scan_key_);
  exact_ = true;
  teak_row entry;
  if (key.unique && (parts & key.all_parts) == key.all_parts && !(key.nullable && codec.image_has_null(image, parts))) {
    exact_by_get_ = true;
    int error = SKIP;
    // A row that another transaction changed while its lock was waited for may have left the key to a third one.
    // What a snapshot shows stays as it is.
    const int attempts = !locking() && session_->is_past_snapshot() ? 1 : ATTEMPTS_MAX;
    for (int attempt = 0; error == SKIP && attempt < attempts; attempt++)
      error = scan(scan_.get(slice(prefix_), &entry), entry, Direction::None, record, HA_ERR_KEY_NOT_FOUND);
    if (error == SKIP && (skip_locked_ || attempts == 1)) error = HA_ERR_KEY_NOT_FOUND;
    exact_missed_ = error == HA_ERR_KEY_NOT_FOUND;
    return error != SKIP ? error : corrupt("an entry of a unique key is not of its row");
  }
  exact_bounds_ = true;
  prefix_end_.clear();
  prefix_end_.append(prefix_.data(), prefix_.size());
  const bool bounded = pass_prefix(&prefix_end_);
  if (prefix_end_.failed()) return out_of_memory();
  teak_status status = scan_.set_bounds(slice(prefix_), bounded ? slice(prefix_end_) : UNBOUNDED);
  if (status == TEAK_OK) status = from_last ? scan_.last(&entry) : scan_.first(&entry);
  return scan(status, entry, from_last ? Direction::Backward : Direction::Forward, record, HA_ERR_KEY_NOT_FOUND);
}

teak_status ha_teak::set_range_bounds() {
  if (!in_read_range_ && !has_range_) range_lower_ = range_upper_ = UNBOUNDED;
  has_range_ = false;
  exact_ = exact_bounds_ = exact_by_get_ = exact_missed_ = false;
  if (!scan_.bounded() && range_lower_.data == nullptr && range_upper_.data == nullptr) return TEAK_OK;
  return scan_.set_bounds(range_lower_, range_upper_);
}

int ha_teak::index_read_map(uchar *record, const uchar *image, key_part_map parts, enum ha_rkey_function how) {
  scan_started_ = true;
  if (!in_read_range_) in_range_check_pushed_down = false;
  teak_status status = set_range_bounds();
  if (status != TEAK_OK) return failure(status);
  prefix_.clear();
  if (image != nullptr) share_->codec(scan_key_).encode_prefix(image, parts, &prefix_);
  if (prefix_.failed()) return out_of_memory();

  teak_row entry;
  switch (how) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
      return read_exact(record, image, parts, false);
    case HA_READ_PREFIX_LAST:
      return read_exact(record, image, parts, true);
    case HA_READ_KEY_OR_NEXT:
      status = scan_.seek(slice(prefix_), TEAK_SEEK_AT_OR_AFTER, &entry);
      return scan(status, entry, Direction::Forward, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_AFTER_KEY:
      status = scan_.seek(slice(prefix_), TEAK_SEEK_AFTER_PREFIX, &entry);
      return scan(status, entry, Direction::Forward, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_BEFORE_KEY:
      status = scan_.seek(slice(prefix_), TEAK_SEEK_BEFORE, &entry);
      return scan(status, entry, Direction::Backward, record, HA_ERR_KEY_NOT_FOUND);
    case HA_READ_KEY_OR_PREV:
    case HA_READ_PREFIX_LAST_OR_PREV:
      status = scan_.seek(slice(prefix_), TEAK_SEEK_AT_OR_BEFORE_PREFIX, &entry);
      return scan(status, entry, Direction::Backward, record, HA_ERR_KEY_NOT_FOUND);
    default:
      return HA_ERR_WRONG_COMMAND;
  }
}

int ha_teak::index_read_last_map(uchar *record, const uchar *image, key_part_map parts) {
  return index_read_map(record, image, parts, HA_READ_PREFIX_LAST);
}

int ha_teak::index_next_same(uchar *record, const uchar *image, uint length) {
  if (!exact_) return handler::index_next_same(record, image, length);
  if (exact_by_get_) return HA_ERR_END_OF_FILE;
  teak_row entry;
  teak_status status = scan_.next(&entry);
  return scan(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

/* HANDLER ... READ NEXT may go on behind an exact lookup, and so does a loose index scan that looks for one row of each
   group (QUICK_GROUP_MIN_MAX_SELECT), also where there is none. */
int ha_teak::index_next(uchar *record) {
  teak_row entry;
  if (exact_bounds_ || exact_missed_) {
    int error = exact_missed_ ? HA_ERR_END_OF_FILE : index_next_same(record, nullptr, 0);
    if (error != HA_ERR_END_OF_FILE) return error;
    teak_status status = set_range_bounds();
    if (status == TEAK_OK) status = scan_.seek(slice(prefix_), TEAK_SEEK_AFTER_PREFIX, &entry);
    return scan(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
  }
  teak_status status = scan_.next(&entry);
  return scan(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

int ha_teak::index_prev(uchar *record) {
  teak_row entry;
  teak_status status = TEAK_OK;
  if (!exact_missed_) {
    status = scan_.previous(&entry);
    int error = scan(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
    if (error != HA_ERR_END_OF_FILE || !exact_bounds_) return error;
  }
  status = set_range_bounds();
  if (status == TEAK_OK) status = scan_.seek(slice(prefix_), TEAK_SEEK_BEFORE, &entry);
  return scan(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
}

int ha_teak::index_first(uchar *record) {
  scan_started_ = true;
  if (!in_read_range_) in_range_check_pushed_down = false;
  teak_row entry;
  teak_status status = set_range_bounds();
  if (status == TEAK_OK) status = scan_.first(&entry);
  return scan(status, entry, Direction::Forward, record, HA_ERR_END_OF_FILE);
}

int ha_teak::index_last(uchar *record) {
  scan_started_ = true;
  teak_row entry;
  teak_status status = set_range_bounds();
  if (status == TEAK_OK) status = scan_.last(&entry);
  int error = scan(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
  if (error != HA_ERR_END_OF_FILE || !scan_.bounded()) return error;
  // Of several ranges this may be the last, and empty: the server takes the end of the file for an empty table.
  range_lower_ = range_upper_ = UNBOUNDED;
  status = scan_.set_bounds(UNBOUNDED, UNBOUNDED);
  if (status == TEAK_OK) status = scan_.last(&entry);
  return scan(status, entry, Direction::Backward, record, HA_ERR_END_OF_FILE);
}

/* ---- ranges ---- */

int ha_teak::read_range_first(const key_range *start, const key_range *end, bool is_equality, bool sorted) {
  range_lower_ = range_upper_ = UNBOUNDED;
  if (end != nullptr) range_upper_ = encode_bound(scan_key_, *end, false, &range_end_);
  in_read_range_ = true;
  // The engine returns nothing beyond the bound: the server need not compare.
  in_range_check_pushed_down = end == nullptr || range_upper_.data != nullptr;
  int error = handler::read_range_first(start, end, is_equality, sorted);
  in_read_range_ = false;
  return error;
}

/* Called before a range is read from its end. */
int ha_teak::prepare_range_scan(const key_range *start, const key_range *end) {
  range_lower_ = range_upper_ = UNBOUNDED;
  if (start != nullptr) range_lower_ = encode_bound(scan_key_, *start, true, &range_start_);
  if (end != nullptr) range_upper_ = encode_bound(scan_key_, *end, false, &range_end_);
  has_range_ = true;
  return 0;
}

}  // namespace teak
