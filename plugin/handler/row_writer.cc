/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_writer.h. */

#include "handler/row_writer.h"

#include "table/virtual_columns.h"

namespace teak {

/* Insertion, Change and Removal are the kinds of writes. add_building() adds the entries of the indexes that an ALTER
   TABLE builds, and returns false when memory runs out. drop_building() removes them. call() calls the engine. */

class RowWriter::Insertion {
 public:
  Insertion(RowWriter &writer, const uchar *record, bool locks_conflicting_row)
      : writer_(writer), record_(record), locks_conflicting_row_(locks_conflicting_row) {}

  void drop_building() { writer_.entries_.resize(writer_.open_.share()->indexes()); }

  bool add_building(const Share::Building &building) {
    const Share &share = *writer_.open_.share();
    RowKeys &keys = writer_.new_keys_;
    if (!keys.encode_building(share, building, writer_.open_.table(), record_, slice(writer_.row_))) return false;
    for (uint32_t i = 0; i < building.indexes(); i++) {
      const uint32_t at = share.indexes() + i;
      writer_.entries_.push_back(
          {building.first_index + i, !keys.is_checked(at), keys.key(at), keys.building_value(at)});
    }
    return true;
  }

  teak_status call(teak_duplicate *duplicate) {
    const auto insert = locks_conflicting_row_ ? teak_transaction_insert_or_lock : teak_transaction_insert;
    return insert(writer_.open_.transaction(), writer_.open_.share()->table(), writer_.entries_.data(),
                  writer_.entries_.size(), duplicate);
  }

 private:
  RowWriter &writer_;
  const uchar *const record_;
  const bool locks_conflicting_row_;
};

class RowWriter::Change {
 public:
  Change(RowWriter &writer, const uchar *old_record, const uchar *new_record)
      : writer_(writer), old_record_(old_record), new_record_(new_record) {}

  void drop_building() { writer_.changes_.resize(writer_.change_count_); }

  bool add_building(const Share::Building &building) {
    const Share &share = *writer_.open_.share();
    RowKeys &old_keys = writer_.old_keys_, &new_keys = writer_.new_keys_;
    TABLE *table = writer_.open_.table();
    if (!old_keys.encode_building(share, building, table, old_record_, slice(writer_.old_row_)) ||
        !new_keys.encode_building(share, building, table, new_record_, slice(writer_.row_)))
      return false;
    for (uint32_t i = 0; i < building.indexes(); i++) {
      const uint32_t at = share.indexes() + i;
      const teak_slice value = new_keys.building_value(at);
      if (same_bytes(old_keys.key(at), new_keys.key(at)) && same_bytes(old_keys.building_value(at), value)) continue;
      writer_.changes_.push_back(
          {building.first_index + i, !new_keys.is_checked(at), old_keys.key(at), new_keys.key(at), value});
    }
    return true;
  }

  teak_status call(teak_duplicate *duplicate) {
    return teak_transaction_update(writer_.open_.transaction(), writer_.open_.share()->table(), writer_.changes_.data(),
                                   writer_.changes_.size(), duplicate);
  }

 private:
  RowWriter &writer_;
  const uchar *const old_record_, *const new_record_;
};

class RowWriter::Removal {
 public:
  Removal(RowWriter &writer, const uchar *record) : writer_(writer), record_(record) {}

  void drop_building() { writer_.entries_.resize(writer_.open_.share()->indexes()); }

  bool add_building(const Share::Building &building) {
    const Share &share = *writer_.open_.share();
    RowKeys &keys = writer_.old_keys_;
    if (!keys.encode_building(share, building, writer_.open_.table(), record_, {})) return false;
    for (uint32_t i = 0; i < building.indexes(); i++)
      writer_.entries_.push_back({building.first_index + i, false, keys.key(share.indexes() + i), UNBOUNDED});
    return true;
  }

  teak_status call(teak_duplicate *) {
    return teak_transaction_delete(writer_.open_.transaction(), writer_.open_.share()->table(), writer_.entries_.data(),
                                   writer_.entries_.size());
  }

 private:
  RowWriter &writer_;
  const uchar *const record_;
};

void RowWriter::open() {
  const uint indexes = open_.share()->indexes();
  new_keys_.reserve_indexes(indexes);
  old_keys_.reserve_indexes(indexes);
}

void RowWriter::reset() {
  constexpr size_t KEEP_BYTES = 1 << 20;
  bulk_.cancel();
  probe_.close();
  row_.clear();
  row_.shrink(KEEP_BYTES);
  old_row_.clear();
  old_row_.shrink(KEEP_BYTES);
  conflicting_row_.reset();
  writes_over_duplicates_ = false;
}

int RowWriter::begin() {
  conflicting_row_.discard_value();
  if (int error = open_.begin_write()) return error;
  open_.count_written_row();
  open_.session()->bulk_inserts().note_write();
  // Done before keys are encoded, because it invalidates slices of encoded keys. No ALTER TABLE can begin while a
  // statement uses the table.
  if (const Share::Building *building = open_.share()->building()) {
    const size_t all = open_.share()->indexes() + building->indexes();
    new_keys_.reserve_indexes(all);
    old_keys_.reserve_indexes(all);
  }
  return 0;
}

template <typename Write> int RowWriter::write(Write &write, bool wants_conflicting_row) {
  for (;;) {
    const Share::Building *building = open_.share()->building();
    write.drop_building();
    if (building != nullptr && !write.add_building(*building)) return open_.out_of_memory();
    teak_duplicate duplicate;
    const teak_status status = write.call(&duplicate);
    if (status == TEAK_OK) return 0;
    if (building_changed(status, building)) continue;
    if (status != TEAK_DUPLICATE_KEY) return open_.failure(status);
    const Conflict conflict = resolve_conflict(duplicate, wants_conflicting_row);
    if (!conflict.repeat) return conflict.error;
    if (thd_kill_level(open_.thd()) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
  }
}

/* Whether the engine rejected a row because the ALTER TABLE that was building keys has been rolled back. */
bool RowWriter::building_changed(teak_status status, const Share::Building *building) const {
  return status == TEAK_NO_SUCH_INDEX && building != nullptr && open_.share()->building() != building;
}

int RowWriter::insert(const uchar *record) {
  if (int error = begin()) return error;
  const Share &share = *open_.share();
  if (share.hidden_primary())
    if (int error = open_.assign_row_id()) return error;
  bulk_.start_unannounced();
  if (bulk_.is_loading()) return bulk_.load(record);
  row_.clear();
  share.rows().encode(record, &row_);
  if (!new_keys_.encode(share, open_.row_id(), record, slice(row_)) || row_.failed()) return open_.out_of_memory();
  entries_.resize(share.indexes());
  for (uint32_t index = 0; index < share.indexes(); index++)
    entries_[index] = {index, !new_keys_.is_unique(index), new_keys_.key(index), new_value(index)};

  if (int error = bulk_.before_insert()) return error;
  const enum_duplicates duplicates = open_.thd()->lex->duplicates;
  const bool wants_conflicting_row = writes_over_duplicates_ || duplicates == DUP_REPLACE || duplicates == DUP_UPDATE;
  Insertion insertion(*this, record, wants_conflicting_row);
  if (int error = write(insertion, wants_conflicting_row)) return error;
  entries_.resize(share.indexes());
  return bulk_.after_insert(entries_);
}

int RowWriter::update(const uchar *old_record, const uchar *new_record) {
  if (int error = begin()) return error;
  const Share &share = *open_.share();
  row_.clear();
  share.rows().encode(new_record, &row_);
  old_row_.clear();
  // The server has compared the records, except for REPLACE.
  const bool must_compare = open_.thd()->lex->duplicates == DUP_REPLACE;
  const Share::Building *building = share.building();
  if (must_compare || share.has_clustering_key() || (building != nullptr && building->has_clustering_key()))
    share.rows().encode(old_record, &old_row_);
  if (!old_keys_.encode(share, open_.row_id(), old_record, slice(old_row_)) ||
      !new_keys_.encode(share, open_.row_id(), new_record, slice(row_)) || row_.failed() || old_row_.failed())
    return open_.out_of_memory();

  bool same_entries;
  collect_changes(&same_entries);
  if (must_compare && same_entries && same_bytes(slice(old_row_), slice(row_))) return HA_ERR_RECORD_IS_THE_SAME;
  Change change(*this, old_record, new_record);
  return write(change, false);
}

/* `same_entries`: the row's primary key and its entries in all secondary indexes are unchanged. */
void RowWriter::collect_changes(bool *same_entries) {
  const uint32_t indexes = open_.share()->indexes();
  const bool same_primary = same_bytes(old_keys_.primary(), new_keys_.primary());
  // The snapshot does not see entries that other transactions changed after it. If the row may have such entries, all
  // of its entries are written, so that this transaction sees them.
  const bool writes_all = open_.session()->is_past_snapshot();
  *same_entries = same_primary;
  changes_.resize(indexes);
  change_count_ = 0;
  for (uint32_t index = 0; index < indexes; index++) {
    if (index != 0) {
      const bool same_entry = same_primary && new_keys_.has_same_entry(index, old_keys_);
      if (same_entry && !writes_all) continue;
      *same_entries &= same_entry;
    }
    changes_[change_count_++] = {index, !new_keys_.is_unique(index), old_keys_.key(index), new_keys_.key(index),
                                 new_value(index)};
  }
}

int RowWriter::remove(const uchar *record) {
  if (int error = begin()) return error;
  const Share &share = *open_.share();
  if (!old_keys_.encode(share, open_.row_id(), record, {})) return open_.out_of_memory();
  entries_.resize(share.indexes());
  for (uint32_t index = 0; index < share.indexes(); index++)
    entries_[index] = {index, false, old_keys_.key(index), UNBOUNDED};
  Removal removal(*this, record);
  return write(removal, false);
}

/* ---- many rows ---- */

int RowWriter::end_bulk_insert() {
  int error = 0;
  // If the statement has failed, the server ignores this error.
  if (bulk_.is_loading() && !open_.thd()->is_error())
    error = thd_kill_level(open_.thd()) == THD_IS_NOT_KILLED ? bulk_.finish() : HA_ERR_ABORTED_BY_USER;
  bulk_.cancel();
  return error;
}

int RowWriter::end_copy() { return open_.thd()->locked_tables_mode > LTM_LOCK_TABLES ? end_bulk_insert() : 0; }

/* The server respects only this error, and reports one of its own after it. */
int RowWriter::end_load_data() {
  if (open_.thd()->lex->sql_command != SQLCOM_LOAD) return 0;
  const int error = end_copy();
  if (error == 0) return 0;
  open_.raise_error(error);
  return HA_ERR_FOUND_DUPP_KEY;
}

/* The entry is one of the load, or one of the table. */
int RowWriter::report_late_duplicate(const teak_duplicate &duplicate) {
  const Share &share = *open_.share();
  const int error = report_duplicate(duplicate);
  if (error != HA_ERR_FOUND_DUPP_KEY) return error;
  if (duplicate.index == 0)
    return show_row(duplicate.key, duplicate.value) ? error : open_.corrupt("a row is malformed");
  teak_row row;
  Cursor::Options options;
  options.reads_newest = true;
  probe_.bind(open_.session(), share.table(), 0, TEAK_LOCK_NONE, options);
  if (probe_.get(conflicting_row_.primary(), &row) == TEAK_OK)
    return show_row(row.key, row.value) ? error : open_.corrupt("a row is malformed");
  // The row is not in the table, and the columns may not be decodable from the entry.
  const KEY &key = open_.table()->key_info[share.key_of(duplicate.index)];
  my_printf_error(ER_DUP_ENTRY, "Two rows of the statement have the same value of the unique key '%-.192s'", MYF(0),
                  key.name.str);
  return error;
}

/* Decodes a row into the server's record, because the message of the error shows the columns of the key. */
bool RowWriter::show_row(teak_slice primary, teak_slice row) {
  TABLE *table = open_.table();
  decoded_blobs_.clear();
  if (!open_.share()->rows().decode(row.data, row.len, primary.data, primary.len, table->record[0], nullptr,
                                    &decoded_blobs_))
    return false;
  const uint key = open_.session()->duplicate_key();
  return !open_.share()->key(key).has_virtual_column || !compute_virtual_columns(table, key, false);
}

/* ---- duplicate keys ---- */

/* REPLACE and ON DUPLICATE KEY UPDATE continue with the conflicting row, so they lock it, unless the engine has done so.
   A statement that is logged as text locks it, too, because it must find the same conflict when it is replayed. */
RowWriter::Conflict RowWriter::resolve_conflict(const teak_duplicate &duplicate, bool wants_conflicting_row) {
  const uint32_t index = duplicate.index;
  const int error = report_duplicate(duplicate);
  if (error != HA_ERR_FOUND_DUPP_KEY || !(wants_conflicting_row || locks_.is_replayed())) return {error, false};
  if (duplicate.is_locked) {
    // No unique key was checked before the primary key.
    conflicting_row_.set_locked_value(duplicate.value);
    return {error, false};
  }
  teak_status status = lock_conflicting_row(index, wants_conflicting_row ? TEAK_LOCK_EXCLUSIVE : TEAK_LOCK_SHARED);
  if (status == TEAK_OK && wants_conflicting_row) status = lock_absent_keys(index);
  if (status == TEAK_OK) return {error, false};
  conflicting_row_.discard_value();
  if (status == TEAK_NOT_FOUND || status == TEAK_DUPLICATE_KEY) return {0, true};
  return {open_.failure(status), false};
}

/* The primary key in the value of a unique entry. */
bool RowWriter::primary_of_entry(uint32_t index, teak_slice value, teak_slice *primary) const {
  const Share &share = *open_.share();
  return share.primary_of_value(share.key(share.key_of(index)).clustering, value, primary);
}

/* Reports to the server the key that caused the duplicate-key error, and the position of the conflicting row. */
int RowWriter::report_duplicate(const teak_duplicate &duplicate) {
  const Share &share = *open_.share();
  open_.session()->note_duplicate(share.key_of(duplicate.index));
  teak_slice primary = duplicate.key;
  if (duplicate.index != 0 && !primary_of_entry(duplicate.index, duplicate.value, &primary))
    return open_.corrupt("an entry of a unique key is malformed");
  if (!conflicting_row_.set_primary(primary)) return open_.out_of_memory();
  if (!positions_.fits(conflicting_row_.primary())) return open_.corrupt("an entry of a unique key is malformed");
  positions_.store(conflicting_row_.primary(), open_.server().dup_ref);
  open_.server().errkey = open_.session()->duplicate_key();
  return HA_ERR_FOUND_DUPP_KEY;
}

/* Locks the conflicting row. TEAK_NOT_FOUND: it no longer conflicts. */
teak_status RowWriter::lock_conflicting_row(uint32_t index, teak_lock_mode mode) {
  const Share &share = *open_.share();
  teak_row row;
  probe_.bind(open_.session(), share.table(), 0, mode, locks_.cursor_options());
  teak_status status = probe_.get(conflicting_row_.primary(), &row);
  if (status != TEAK_OK) return status;
  if (mode == TEAK_LOCK_EXCLUSIVE) conflicting_row_.set_locked_value(row.value);
  if (index == 0) return TEAK_OK;
  bool same = false;
  if (compare_unique_key(row, index, &same)) return same ? TEAK_OK : TEAK_NOT_FOUND;
  probe_.bind(open_.session(), share.table(), index, mode, locks_.cursor_options());
  status = probe_.get(new_keys_.key(index), &row);
  if (status != TEAK_OK) return status;
  teak_slice primary;
  same = primary_of_entry(index, row.value, &primary) && same_bytes(primary, conflicting_row_.primary());
  return same ? TEAK_OK : TEAK_NOT_FOUND;
}

/* Compares the key of a locked row in a unique index with the key of the new row. False: the index must be read, because
   the key has virtual columns, which the row does not contain, or because the row is too large to be decoded for this. */
bool RowWriter::compare_unique_key(const teak_row &row, uint32_t index, bool *same) {
  constexpr size_t DECODED_BYTES_MAX = 16 << 10;
  const Share &share = *open_.share();
  const Share::Key &key = share.key(share.key_of(index));
  if (key.has_virtual_column || row.value.len > DECODED_BYTES_MAX) return false;
  decoded_record_.resize(open_.table_share()->reclength);
  decoded_blobs_.clear();
  if (!share.rows().decode(row.value.data, row.value.len, row.key.data, row.key.len, decoded_record_.data(), nullptr,
                           &decoded_blobs_))
    return false;
  compared_key_.clear();
  key.codec->encode_record(decoded_record_.data(), &compared_key_);
  *same = same_bytes(slice(compared_key_), new_keys_.key(index));
  return !compared_key_.failed();
}

/* The unique keys before the duplicate one had no conflict, and REPLACE and ON DUPLICATE KEY UPDATE rely on that: if
   the duplicate key is the last unique key, the server updates the conflicting row without checking the others
   again. So these keys are locked. TEAK_DUPLICATE_KEY: another transaction has inserted one of them since. */
teak_status RowWriter::lock_absent_keys(uint32_t duplicate_index) {
  const Share &share = *open_.share();
  const TABLE_SHARE &definition = *open_.table()->s;
  const bool generated_number = open_.server().insert_id_for_cur_row != 0;
  for (uint32_t index = 0; index < duplicate_index; index++) {
    if (!new_keys_.is_unique(index)) continue;
    // No other row can get the same AUTO_INCREMENT value.
    if (generated_number && share.key_of(index) == definition.next_number_index && definition.next_number_keypart == 0)
      continue;
    const teak_status status =
        teak_transaction_lock_absent(open_.transaction(), share.table(), index, new_keys_.key(index));
    if (status != TEAK_OK) return status;
  }
  return TEAK_OK;
}

}  // namespace teak
