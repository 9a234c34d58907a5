/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* AUTO_INCREMENT. As the first part of a key it is a durable counter of the table, given out in intervals; as a later part
   it is one more than the greatest value among the rows that agree in the parts before it, read under lock.

   The binary log keeps the first value that a statement was given, and a replay counts on from there. So a statement that
   may be logged as its text, and for which one interval may not do, holds the counter until it ends. */

#include "handler/ha_teak.h"

namespace teak {

/* A generated or given value moves the counter, also when an UPDATE wrote it. */
int ha_teak::note_auto_increment(const uchar *record) {
  if (table->found_next_number_field == nullptr || table_share->next_number_keypart != 0 || record != table->record[0])
    return 0;
  Field *field = table->found_next_number_field;
  if (field->is_null()) return 0;
  longlong value = field->val_int();
  if (value <= 0 && !(field->flags & UNSIGNED_FLAG)) return 0;
  return move_auto_increment([&](Share::Counter *counter) {
    return share_->note_auto_increment(static_cast<ulonglong>(value), holds_auto_increment_, counter);
  });
}

/* Moves the counter; holds it meanwhile when a statement of others does. */
template <typename Move> int ha_teak::move_auto_increment(Move move) {
  Share::Counter counter;
  teak_status status = move(&counter);
  if (status == TEAK_OK && counter == Share::Counter::Held) {
    if (int error = hold_auto_increment()) return error;
    status = move(&counter);
    let_go_of_auto_increment();
  }
  return status == TEAK_OK ? 0 : failure(status);
}

/* Whether the rows may take values beyond the first interval: their number is not known, or some bring values of their
   own. */
bool ha_teak::may_need_intervals() const {
  THD *thd = ha_thd();
  LEX *lex = thd->lex;
  if ((lex->sql_command != SQLCOM_INSERT && lex->sql_command != SQLCOM_REPLACE) || thd->is_bulk_op()) return true;
  if (lex->many_values.elements <= 1) return false;
  if (table->triggers != nullptr || lex->field_list.is_empty()) return true;
  List_iterator_fast<Item> columns(lex->field_list);
  while (Item *column = columns++) {
    Item_field *named = column->field_for_view_update();
    if (named == nullptr || named->field == table->found_next_number_field) return true;
  }
  return false;
}

int ha_teak::hold_auto_increment() {
  if (holds_auto_increment_) return 0;
  if (int error = begin_write()) return error;
  share_->add_auto_increment_holder();
  teak_status status = teak_table_counter_lock(session_->transaction(), share_->table(), AUTO_INCREMENT_COUNTER);
  holds_auto_increment_ = status == TEAK_OK;
  if (holds_auto_increment_) return 0;
  share_->remove_auto_increment_holder();
  return failure(status);
}

void ha_teak::let_go_of_auto_increment() {
  if (!holds_auto_increment_) return;
  holds_auto_increment_ = false;
  share_->remove_auto_increment_holder();
  // A deadlock may have ended the transaction, and its locks.
  if (session_ != nullptr && session_->transaction() != nullptr)
    teak_table_counter_unlock(session_->transaction(), share_->table(), AUTO_INCREMENT_COUNTER);
}

int ha_teak::take_interval(ulonglong offset, ulonglong increment, ulonglong *first, ulonglong *reserved) {
  const bool keep = holds_auto_increment_ || (replayed() && may_need_intervals());
  if (keep)
    if (int error = hold_auto_increment()) return error;
  return move_auto_increment([&](Share::Counter *counter) {
    return share_->reserve_auto_increment(offset, increment, auto_increment_left_, holds_auto_increment_, first,
                                          reserved, counter);
  });
}

void ha_teak::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                 ulonglong *reserved) {
  *first = ULONGLONG_MAX;  // failure, for the server
  *reserved = 0;
  if (table_share->next_number_keypart == 0) {
    // When a statement of known length asks again, it is for its rows that are left.
    if (auto_increment_left_ == 0) auto_increment_left_ = wanted;
    auto_increment_error_ = take_interval(offset, increment, first, reserved);
    if (auto_increment_error_ != 0) *first = ULONGLONG_MAX;
    return;
  }
  ulonglong next;
  if (next_auto_increment_in_key(&next) != 0) return;
  *first = next;
  *reserved = 1;  // the next row may be of another group
}

int ha_teak::next_auto_increment_in_key(ulonglong *next) {
  if (int error = begin_write()) return error;
  const uint number = table_share->next_number_index;
  const KeyCodec &codec = share_->codec(number);
  uchar image[MAX_KEY_LENGTH];
  key_copy(image, table->record[0], table->key_info + number, table_share->next_number_key_offset);
  prefix_.clear();
  codec.encode_image(image, table_share->next_number_key_offset, &prefix_);
  if (prefix_.failed()) return out_of_memory();

  const KEY_PART_INFO &part = table->key_info[number].key_part[table_share->next_number_keypart];
  const bool descending = (part.key_part_flag & HA_REVERSE_SORT) != 0;
  teak_row entry;
  probe_.bind(session_, share_->table(), share_->index_of(number), TEAK_LOCK_EXCLUSIVE, manner());
  teak_status status =
      probe_.seek(slice(prefix_), descending ? TEAK_SEEK_AT_OR_AFTER : TEAK_SEEK_AT_OR_BEFORE_PREFIX, &entry);
  if (status != TEAK_OK && status != TEAK_NOT_FOUND) return failure(status);
  *next = 1;
  if (status == TEAK_NOT_FOUND || entry.key.len < prefix_.size() ||
      memcmp(entry.key.data, prefix_.data(), prefix_.size()) != 0)
    return 0;

  ulonglong value;
  if (int error = auto_increment_of(number, entry, &value)) return error;
  *next = value + 1;
  return 0;
}

/* Decoded into a record of its own: record[1] may hold a row that is still wanted. */
int ha_teak::auto_increment_of(uint key, const teak_row &entry, ulonglong *value) {
  scratch_.clear();
  scratch_.append(table_share->default_values, table_share->reclength);
  if (scratch_.failed()) return out_of_memory();
  if (!share_->codec(key).decode(entry.key.data, entry.key.len, scratch_.data(), nullptr))
    return corrupt("an entry of a key is malformed");
  Field *field = table->found_next_number_field;
  longlong signed_value = field->val_int(scratch_.data() + (field->ptr - table->record[0]));
  *value = signed_value < 0 && !(field->flags & UNSIGNED_FLAG) ? 0 : static_cast<ulonglong>(signed_value);
  return 0;
}

/* The greatest value that a row has; 0 without rows. */
int ha_teak::greatest_auto_increment(ulonglong *greatest) {
  const uint number = table_share->next_number_index;
  const bool descending = (table->key_info[number].key_part[0].key_part_flag & HA_REVERSE_SORT) != 0;
  if (int error = begin_write()) return error;
  teak_row entry;
  probe_.bind(session_, share_->table(), share_->index_of(number), TEAK_LOCK_SHARED, manner());
  teak_status status = descending ? probe_.first(&entry) : probe_.last(&entry);
  *greatest = 0;
  if (status == TEAK_NOT_FOUND) return 0;
  return status == TEAK_OK ? auto_increment_of(number, entry, greatest) : failure(status);
}

void ha_teak::release_auto_increment() {
  auto_increment_left_ = 0;
  let_go_of_auto_increment();
}

int ha_teak::reset_auto_increment(ulonglong value) {
  teak_status status = share_->set_auto_increment(value == 0 ? 1 : value);
  return status == TEAK_OK ? 0 : failure(status);
}

}  // namespace teak
