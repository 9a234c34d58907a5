/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* INSERT, UPDATE, DELETE of a row: every index's key is encoded once, and all of them go to the engine in one call,
   which does all or nothing. */

#include "handler/ha_teak.h"
#include "monitor/page_counting.h"

namespace teak {

/* With the primary key's bytes in keys[0] already: the keys of all other indexes. An entry that need not be unique, or
   must not clash because a column is NULL, is told from others by the primary key at its end; a unique one has the
   primary key as its value. */
bool ha_teak::encode_secondary_keys(const uchar *record, RowKeys *row) const {
  const ByteBuffer &primary = row->keys[0];
  bool failed = primary.failed();
  for (uint number = 0; number < share_->keys(); number++) {
    if (number == share_->primary_key()) continue;
    const Share::Key &definition = share_->key(number);
    uint32_t index = share_->index_of(number);
    ByteBuffer &key = row->keys[index];
    key.clear();
    definition.codec->encode_record(record, &key);
    bool unique = definition.unique && !(definition.nullable && definition.codec->has_null(record));
    if (!unique) key.append(primary.data(), primary.size());
    row->unique[index] = unique;
    failed |= key.failed();
    if (definition.originals == nullptr) continue;
    ByteBuffer &value = row->values[index];
    value.clear();
    if (unique) value.append(primary.data(), primary.size());
    definition.originals->encode(record, &value);
    failed |= value.failed();
  }
  return !failed;
}

/* Behind the row's own keys, those of keys that ALTER TABLE builds: they are not unique and on no virtual column. */
bool ha_teak::encode_building_keys(const uchar *record, const Share::Building &building, RowKeys *row) const {
  const size_t own = share_->indexes(), all = own + building.codecs.size();
  const ByteBuffer &primary = row->keys[0];
  bool failed = false;
  for (size_t i = own; i < all; i++) {
    ByteBuffer &key = row->keys[i];
    key.clear();
    building.codecs[i - own]->encode_record(record, &key);
    key.append(primary.data(), primary.size());
    row->unique[i] = false;
    ByteBuffer &value = row->values[i];
    value.clear();
    if (building.originals[i - own] != nullptr) building.originals[i - own]->encode(record, &value);
    failed |= key.failed() || value.failed();
  }
  return !failed;
}

/* Whether the engine refused a row because the keys that ALTER TABLE built were given up meanwhile. */
bool ha_teak::building_changed(teak_status status, const Share::Building *building) const {
  return status == TEAK_NO_SUCH_INDEX && building != nullptr && share_->building() != building;
}

bool ha_teak::encode_keys(const uchar *record, RowKeys *row) const {
  ByteBuffer &primary = row->keys[0];
  primary.clear();
  // A hidden row id is of the row that was read last: the server writes no other.
  if (share_->hidden_primary())
    primary.append(row_id_, sizeof(row_id_));
  else
    share_->primary().encode_record(record, &primary);
  row->unique[0] = !share_->hidden_primary();
  return encode_secondary_keys(record, row);
}

teak_slice ha_teak::value_of(const RowKeys &row, uint32_t index) const {
  if (index == 0) return slice(row_);
  if (!row.values[index].empty()) return slice(row.values[index]);
  return row.unique[index] ? slice(row.keys[0]) : teak_slice{row.keys[0].data(), 0};
}

/* Tells the server which key refused, and where the row in the way is. */
int ha_teak::refused(const teak_duplicate &duplicate) {
  session_->note_duplicate(share_->key_of(duplicate.index));
  teak_slice primary = duplicate.key;
  if (duplicate.index != 0 && !share_->primary_of_value(duplicate.value, &primary))
    return corrupt("an entry of a unique key is malformed");
  in_the_way_.clear();
  in_the_way_.append(primary.data, primary.len);
  if (in_the_way_.failed()) return out_of_memory();
  if (share_->hidden_primary() ? primary.len != KeyCodec::HIDDEN_ROW_ID_BYTES
                               : primary.len + POSITION_LENGTH_BYTES > ref_length)
    return corrupt("an entry of a unique key is malformed");
  store_position(slice(in_the_way_), dup_ref);
  errkey = session_->duplicate_key();
  return HA_ERR_FOUND_DUPP_KEY;
}

/* Locks the row in the way. REPLACE and ON DUPLICATE KEY UPDATE go on with it; a statement that is logged as its text
   must meet it again when it is replayed. NOT_FOUND: it is not in the way any more. */
teak_status ha_teak::lock_duplicate(uint32_t index, teak_lock_mode mode) {
  teak_row row;
  probe_.bind(session_, share_->table(), 0, mode, manner());
  teak_status status = probe_.get(slice(in_the_way_), &row);
  if (status != TEAK_OK || index == 0) return status;
  probe_.bind(session_, share_->table(), index, mode, manner());
  status = probe_.get(slice(new_.keys[index]), &row);
  if (status != TEAK_OK) return status;
  teak_slice primary;
  const bool same = share_->primary_of_value(row.value, &primary) && primary.len == in_the_way_.size() &&
                    memcmp(primary.data, in_the_way_.data(), primary.len) == 0;
  return same ? TEAK_OK : TEAK_NOT_FOUND;
}

/* The unique keys before the one that is in the way were found free, and REPLACE and ON DUPLICATE KEY UPDATE go on from
   that: the server updates the row in the way without a further look where it has the last unique key. So they stay free.
   DUPLICATE_KEY: one of them is not free any more. */
teak_status ha_teak::lock_free_keys(uint32_t duplicate, bool generated_number) {
  for (uint32_t index = 0; index < duplicate; index++) {
    if (!new_.unique[index]) continue;
    // Nobody else is given the same number.
    if (generated_number && share_->key_of(index) == table->s->next_number_index && table->s->next_number_keypart == 0)
      continue;
    teak_status status =
        teak_transaction_lock_absent(session_->transaction(), share_->table(), index, slice(new_.keys[index]));
    if (status != TEAK_OK) return status;
  }
  return TEAK_OK;
}

int ha_teak::begin_write() {
  if (session_ == nullptr || session_->transaction() == nullptr) {
    session_ = session_of(ha_thd());
    if (session_ == nullptr) return out_of_memory();
    if (int error = session_->use()) return error;
  }
  // Before a key is encoded: growing would move them.
  if (const Share::Building *building = share_->building()) {
    const size_t all = share_->indexes() + building->codecs.size();
    if (new_.keys.size() < all) new_.resize(all);
    if (old_.keys.size() < all) old_.resize(all);
  }
  wrote_ = true;
  const bool is_temporary = table_share->tmp_table != NO_TMP_TABLE;
  if (query_cache_use::is_counting() && !is_temporary && !without_rollback())
    session_->note_write(share_->query_cache_slot());
  teak_status status = session_->before_write(is_temporary);
  return status == TEAK_OK ? 0 : failure(status);
}

int ha_teak::end_write(int error) {
  if (error != 0 || !without_rollback()) return error;
  teak_status status = session_->write_done();
  return status == TEAK_OK ? 0 : failure(status);
}

/* A new row's id, in a table without primary key. */
int ha_teak::give_row_id() {
  uint64_t id;
  teak_status status = share_->next_row_id(&id);
  if (status != TEAK_OK) return failure(status);
  if (id >> (8 * POSITION_OF_ROW_ID_BYTES) != 0) return HA_ERR_RECORD_FILE_FULL;
  mi_int8store(row_id_, id);
  return 0;
}

int ha_teak::write_row(const uchar *record) {
  const PageCounting counting(handler_stats);
  if (table->next_number_field != nullptr && record == table->record[0]) {
    auto_increment_error_ = 0;
    if (int error = update_auto_increment()) return auto_increment_error_ != 0 ? auto_increment_error_ : error;
    if (auto_increment_left_ != 0) auto_increment_left_--;
  }
  if (int error = begin_write()) return error;

  if (share_->hidden_primary())
    if (int error = give_row_id()) return error;
  row_.clear();
  share_->rows().encode(record, &row_);
  if (!encode_keys(record, &new_) || row_.failed()) return out_of_memory();
  const uint32_t own = share_->indexes();
  entries_.resize(own);
  for (uint32_t index = 0; index < own; index++)
    entries_[index] = {index, new_.unique[index] != 0, slice(new_.keys[index]), value_of(new_, index)};

  const enum_duplicates duplicates = ha_thd()->lex->duplicates;
  const bool wants_duplicate = writes_over_duplicates_ || duplicates == DUP_REPLACE || duplicates == DUP_UPDATE;
  for (;;) {
    const Share::Building *building = share_->building();
    entries_.resize(own);
    if (building != nullptr) {
      if (!encode_building_keys(record, *building, &new_)) return out_of_memory();
      for (uint32_t i = 0; i < building->codecs.size(); i++)
        entries_.push_back({building->first_index + i, false, slice(new_.keys[own + i]), value_of(new_, own + i)});
    }
    teak_duplicate duplicate;
    teak_status status =
        teak_transaction_insert(session_->transaction(), share_->table(), entries_.data(), entries_.size(), &duplicate);
    if (status == TEAK_OK) break;
    if (building_changed(status, building)) continue;
    if (status != TEAK_DUPLICATE_KEY) return failure(status);
    uint32_t index = duplicate.index;
    int error = refused(duplicate);
    if (error != HA_ERR_FOUND_DUPP_KEY || !(wants_duplicate || replayed())) return error;
    status = lock_duplicate(index, wants_duplicate ? TEAK_LOCK_EXCLUSIVE : TEAK_LOCK_SHARED);
    if (status == TEAK_OK && wants_duplicate) status = lock_free_keys(index, insert_id_for_cur_row != 0);
    if (status == TEAK_OK) return error;
    if (status != TEAK_NOT_FOUND && status != TEAK_DUPLICATE_KEY) return failure(status);
    if (thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
  }
  return end_write(note_auto_increment(record));
}

int ha_teak::update_row(const uchar *old_record, const uchar *new_record) {
  const PageCounting counting(handler_stats);
  if (int error = begin_write()) return error;
  row_.clear();
  share_->rows().encode(new_record, &row_);
  if (!encode_keys(old_record, &old_) || !encode_keys(new_record, &new_) || row_.failed()) return out_of_memory();

  size_t count = 0;
  changes_.resize(share_->indexes());
  auto same = [](const ByteBuffer &left, const ByteBuffer &right) {
    return left.size() == right.size() && memcmp(left.data(), right.data(), left.size()) == 0;
  };
  const bool same_primary = same(old_.keys[0], new_.keys[0]);
  // The snapshot does not show entries that others changed after it: where the row's may be such, all of them are written.
  const bool writes_all = session_->is_past_snapshot();
  bool same_entries = same_primary;
  for (uint32_t index = 0; index < share_->indexes(); index++) {
    if (index != 0 && same_primary && same(old_.keys[index], new_.keys[index]) &&
        same(old_.values[index], new_.values[index])) {
      if (!writes_all) continue;
    } else if (index != 0) {
      same_entries = false;
    }
    changes_[count++] = {index, new_.unique[index] != 0, slice(old_.keys[index]), slice(new_.keys[index]),
                         value_of(new_, index)};
  }
  // The server has compared the records, but for REPLACE it leaves that to us.
  if (same_entries && ha_thd()->lex->duplicates == DUP_REPLACE) {
    old_row_.clear();
    share_->rows().encode(old_record, &old_row_);
    if (same(old_row_, row_)) return HA_ERR_RECORD_IS_THE_SAME;
  }
  for (;;) {
    const Share::Building *building = share_->building();
    changes_.resize(count);
    if (building != nullptr) {
      if (!encode_building_keys(old_record, *building, &old_) || !encode_building_keys(new_record, *building, &new_))
        return out_of_memory();
      const uint32_t own = share_->indexes();
      for (uint32_t i = 0; i < building->codecs.size(); i++)
        if (!same(old_.keys[own + i], new_.keys[own + i]) || !same(old_.values[own + i], new_.values[own + i]))
          changes_.push_back({building->first_index + i, false, slice(old_.keys[own + i]), slice(new_.keys[own + i]),
                              value_of(new_, own + i)});
    }
    teak_duplicate duplicate;
    teak_status status =
        teak_transaction_update(session_->transaction(), share_->table(), changes_.data(), changes_.size(), &duplicate);
    if (status == TEAK_OK) break;
    if (building_changed(status, building)) continue;
    if (status != TEAK_DUPLICATE_KEY) return failure(status);
    uint32_t index = duplicate.index;
    int error = refused(duplicate);
    if (error != HA_ERR_FOUND_DUPP_KEY || !replayed()) return error;
    status = lock_duplicate(index, TEAK_LOCK_SHARED);
    if (status == TEAK_OK) return error;
    if (status != TEAK_NOT_FOUND) return failure(status);
    if (thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
  }
  return end_write(note_auto_increment(new_record));
}

int ha_teak::delete_row(const uchar *record) {
  const PageCounting counting(handler_stats);
  if (int error = begin_write()) return error;
  if (!encode_keys(record, &old_)) return out_of_memory();
  const uint32_t own = share_->indexes();
  teak_status status;
  const Share::Building *building;
  do {
    building = share_->building();
    entries_.clear();
    for (uint32_t index = 0; index < own; index++)
      entries_.push_back({index, old_.unique[index] != 0, slice(old_.keys[index]), UNBOUNDED});
    if (building != nullptr) {
      if (!encode_building_keys(record, *building, &old_)) return out_of_memory();
      for (uint32_t i = 0; i < building->codecs.size(); i++)
        entries_.push_back({building->first_index + i, false, slice(old_.keys[own + i]), UNBOUNDED});
    }
    status = teak_transaction_delete(session_->transaction(), share_->table(), entries_.data(), entries_.size());
  } while (building_changed(status, building));
  return status == TEAK_OK ? 0 : failure(status);
}

}  // namespace teak
