/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See auto_increment.h. */

#include "handler/auto_increment.h"

namespace teak {

int AutoIncrement::after_row(int error) {
  if (error != 0) return error_ != 0 ? error_ : error;
  if (rows_left_ != 0) rows_left_--;
  return 0;
}

int AutoIncrement::note(const uchar *record) {
  const TABLE &table = *open_.table();
  Field *field = table.found_next_number_field;
  if (field == nullptr || table.s->next_number_keypart != 0 || record != table.record[0] || field->is_null()) return 0;
  const longlong value = field->val_int();
  if (value <= 0 && !(field->flags & UNSIGNED_FLAG)) return 0;
  return move_counter([&](AutoIncrementCounter::Result *result) {
    return open_.share()->auto_increment().note(static_cast<ulonglong>(value), locks_counter_, result);
  });
}

/* Advances the counter. If other statements have locked the counter or wait for its lock, locks it for this change. */
template <typename Move> int AutoIncrement::move_counter(Move move) {
  AutoIncrementCounter::Result result;
  teak_status status = move(&result);
  if (status == TEAK_OK && result == AutoIncrementCounter::Result::MustLock) {
    if (int error = lock_counter()) return error;
    status = move(&result);
    unlock_counter();
  }
  return status == TEAK_OK ? 0 : open_.failure(status);
}

/* Whether the statement may need more than one interval: the number of its rows is not known, or some rows have
   explicit values. */
bool AutoIncrement::may_need_intervals() const {
  const TABLE &table = *open_.table();
  THD *thd = open_.thd();
  LEX *lex = thd->lex;
  if ((lex->sql_command != SQLCOM_INSERT && lex->sql_command != SQLCOM_REPLACE) || thd->is_bulk_op()) return true;
  if (lex->many_values.elements <= 1) return false;
  if (table.triggers != nullptr || lex->field_list.is_empty()) return true;
  List_iterator_fast<Item> columns(lex->field_list);
  while (Item *column = columns++) {
    Item_field *named = column->field_for_view_update();
    if (named == nullptr || named->field == table.found_next_number_field) return true;
  }
  return false;
}

int AutoIncrement::lock_counter() {
  if (locks_counter_) return 0;
  if (int error = open_.begin_write()) return error;
  AutoIncrementCounter &counter = open_.share()->auto_increment();
  counter.add_locker();
  const teak_status status = counter.lock(open_.transaction());
  locks_counter_ = status == TEAK_OK;
  if (locks_counter_) return 0;
  counter.remove_locker();
  return open_.failure(status);
}

void AutoIncrement::unlock_counter() {
  if (!locks_counter_) return;
  locks_counter_ = false;
  AutoIncrementCounter &counter = open_.share()->auto_increment();
  counter.remove_locker();
  // A deadlock may have ended the transaction, and released its locks.
  if (open_.session() != nullptr && open_.transaction() != nullptr) counter.unlock(open_.transaction());
}

int AutoIncrement::reserve_interval(ulonglong offset, ulonglong increment, ulonglong *first, ulonglong *reserved) {
  if (locks_counter_ || (locks_.is_replayed() && may_need_intervals()))
    if (int error = lock_counter()) return error;
  return move_counter([&](AutoIncrementCounter::Result *result) {
    return open_.share()->auto_increment().reserve(offset, increment, rows_left_, locks_counter_, first, reserved,
                                                   result);
  });
}

void AutoIncrement::reserve(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                            ulonglong *reserved) {
  *first = ULONGLONG_MAX;  // failure, for the server
  *reserved = 0;
  if (open_.table_share()->next_number_keypart == 0) {
    // If the server requests values again in the same statement, they are needed only for the remaining rows.
    if (rows_left_ == 0) rows_left_ = wanted;
    error_ = reserve_interval(offset, increment, first, reserved);
    if (error_ != 0) *first = ULONGLONG_MAX;
    return;
  }
  ulonglong next;
  error_ = next_in_group(&next);
  if (error_ != 0) return;
  *first = next;
  *reserved = 1;  // the next row may be in another group
}

int AutoIncrement::next_in_group(ulonglong *next) {
  if (int error = open_.begin_write()) return error;
  const TABLE &table = *open_.table();
  const Share &share = *open_.share();
  const uint number = table.s->next_number_index;
  uchar image[MAX_KEY_LENGTH];
  key_copy(image, table.record[0], table.key_info + number, table.s->next_number_key_offset);
  prefix_.clear();
  share.codec(number).encode_image(image, table.s->next_number_key_offset, &prefix_);
  if (prefix_.failed()) return open_.out_of_memory();

  const KEY_PART_INFO &part = table.key_info[number].key_part[table.s->next_number_keypart];
  const bool descending = (part.key_part_flag & HA_REVERSE_SORT) != 0;
  teak_row entry;
  probe_.bind(open_.session(), share.table(), share.index_of(number), TEAK_LOCK_EXCLUSIVE, locks_.cursor_options());
  const teak_status status =
      probe_.seek(slice(prefix_), descending ? TEAK_SEEK_AT_OR_AFTER : TEAK_SEEK_AT_OR_BEFORE_PREFIX, &entry);
  if (status != TEAK_OK && status != TEAK_NOT_FOUND) return open_.failure(status);
  *next = 1;
  if (status == TEAK_NOT_FOUND || entry.key.len < prefix_.size() ||
      memcmp(entry.key.data, prefix_.data(), prefix_.size()) != 0)
    return 0;

  ulonglong value;
  if (int error = value_of_entry(number, entry, &value)) return error;
  *next = value + 1;
  return 0;
}

/* Decodes into a separate record, because record[1] of the table may contain a row that is still needed. */
int AutoIncrement::value_of_entry(uint key, const teak_row &entry, ulonglong *value) {
  const TABLE &table = *open_.table();
  record_.clear();
  record_.append(table.s->default_values, table.s->reclength);
  if (record_.failed()) return open_.out_of_memory();
  if (!open_.share()->codec(key).decode(entry.key.data, entry.key.len, record_.data(), nullptr))
    return open_.corrupt("an entry of a key is malformed");
  Field *field = table.found_next_number_field;
  const longlong signed_value = field->val_int(record_.data() + (field->ptr - table.record[0]));
  *value = signed_value < 0 && !(field->flags & UNSIGNED_FLAG) ? 0 : static_cast<ulonglong>(signed_value);
  return 0;
}

/* `max` receives 0 if the table has no rows. */
int AutoIncrement::max_of_rows(ulonglong *max) {
  const TABLE &table = *open_.table();
  const Share &share = *open_.share();
  const uint number = table.s->next_number_index;
  const bool descending = (table.key_info[number].key_part[0].key_part_flag & HA_REVERSE_SORT) != 0;
  if (int error = open_.begin_write()) return error;
  teak_row entry;
  probe_.bind(open_.session(), share.table(), share.index_of(number), TEAK_LOCK_SHARED, locks_.cursor_options());
  const teak_status status = descending ? probe_.first(&entry) : probe_.last(&entry);
  *max = 0;
  if (status == TEAK_NOT_FOUND) return 0;
  return status == TEAK_OK ? value_of_entry(number, entry, max) : open_.failure(status);
}

int AutoIncrement::set_counter_past_rows(ulonglong wanted) {
  ulonglong max = 0;
  if (int error = max_of_rows(&max)) return error;
  if (wanted <= max) wanted = max == ULONGLONG_MAX ? max : max + 1;
  const teak_status status = open_.share()->auto_increment().set(wanted == 0 ? 1 : wanted);
  return status == TEAK_OK ? 0 : open_.failure(status);
}

void AutoIncrement::release() {
  rows_left_ = 0;
  unlock_counter();
}

}  // namespace teak
