/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See bulk_insert.h. */

#include "handler/bulk_insert.h"

#include <cstring>
#include <memory>

#include "base/engine.h"
#include "monitor/progress.h"
#include "monitor/variables.h"
#include "partition_info.h"

namespace teak {

namespace {

struct Header {
  uint32_t key_bytes, value_bytes;
  bool unchecked;
};

/* Whether the server announces the insertion of many rows, unless there are triggers or stored functions. */
bool inserts_many(const LEX &lex) {
  switch (lex.sql_command) {
    case SQLCOM_LOAD:
    case SQLCOM_INSERT_SELECT:
    case SQLCOM_REPLACE_SELECT:
    case SQLCOM_CREATE_TABLE:
    case SQLCOM_ALTER_TABLE:
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
      return true;
    case SQLCOM_INSERT:
    case SQLCOM_REPLACE:
      return lex.many_values.elements > 1;
    default:
      return false;
  }
}

/* Whether a duplicate key is an error that ends the statement. */
bool fails_on_duplicates(const LEX &lex) {
  return lex.duplicates == DUP_ERROR && !lex.ignore && lex.sql_command != SQLCOM_REPLACE &&
         lex.sql_command != SQLCOM_REPLACE_SELECT;
}

/* Whether the server reads rows of the table before it inserts another one. */
bool reads_own_rows(const TABLE &table) {
  const TABLE_SHARE &definition = *table.s;
  const bool numbers_groups = table.found_next_number_field != nullptr && definition.next_number_keypart != 0;
  return definition.long_unique_table || definition.period.name.length != 0 || numbers_groups;
}

/* Whether a statement can load its rows that are not announced. The server has opened all tables that its triggers and
   functions use. */
bool can_load_unannounced(const THD &thd, const TABLE &table) {
  if (thd.locked_tables_mode <= LTM_LOCK_TABLES) return false;
  // The statement is one of a trigger or function; or INSERT ... VALUES, at whose end the server does not call extra().
  if (thd.in_sub_stmt != 0 || thd.lex->sql_command == SQLCOM_INSERT) return false;
  for (const TABLE *other = thd.open_tables; other != nullptr; other = other->next)
    if (other != &table && other->s == table.s) return false;
  // A duplicate key is found at the end. A table without transactions would then keep the changes that triggers have
  // made for the rows after it. A sequence only loses values.
  for (const TABLE_LIST *used = thd.lex->query_tables; used != nullptr; used = used->next_global) {
    const TABLE *other = used->table;
    if (other == nullptr || other == &table || used->lock_type < TL_FIRST_WRITE) continue;
    if (other->s->table_type != TABLE_TYPE_SEQUENCE && !other->file->has_transactions_and_rollback()) return false;
  }
  return true;
}

size_t bytes_of(const std::vector<teak_row_entry> &entries) {
  size_t bytes = 0;
  for (const teak_row_entry &entry : entries) bytes += entry.key.len + entry.value.len;
  return bytes;
}

}  // namespace

/* Why the rows cannot be loaded. */
Refusal BulkInsert::refusal() const {
  const TABLE &table = *open_.table();
  const THD &thd = *open_.thd();
  if (!fails_on_duplicates(*thd.lex)) return Refusal::Duplicates;
  if (thd.slave_thread) return Refusal::Replication;
  if (open_.without_rollback()) return Refusal::Temporary;
  if (table.versioned() || reads_own_rows(table)) return Refusal::Definition;
  // The server's table of an ALTER TABLE that copies is temporary, too, but not the engine's.
  if (!teak_table_can_load(open_.share()->table())) return open_.is_temporary() ? Refusal::Temporary : Refusal::Altered;
  return is_announced_ || can_load_unannounced(thd, table) ? Refusal::None : Refusal::Triggers;
}

/* If the number of rows is known, their size can be estimated. The server knows it for INSERT; for a partition it
   guesses. */
bool BulkInsert::is_for_few_rows(ha_rows rows) const {
  constexpr ha_rows EXACT_FOR_PARTITIONS = 10;
  const TABLE &table = *open_.table();
  if (rows == 0 || open_.thd()->lex->sql_command != SQLCOM_INSERT) return false;
  if (table.part_info != nullptr) return rows < EXACT_FOR_PARTITIONS;
  return rows * table.s->reclength < session_bulk_load_threshold(open_.thd());
}

void BulkInsert::start(ha_rows rows, bool is_announced) {
  cancel();
  was_started_ = true;
  is_announced_ = is_announced;
  if (!inserts_many(*open_.thd()->lex) || refusal() != Refusal::None) return;
  BulkInsertGroup &group = open_.session()->bulk_inserts();
  // The rollback of the first rows would undo insertions into a partition that is not a member.
  if (group.is_empty() && is_for_few_rows(rows)) return;
  if (group.is_stopped() || (group.is_loading() && !teak_engine_has_sort_memory(engine))) {
    lacks_memory_ = true;
    return;
  }
  group_ = &group;
  partition_info *partitions = open_.table()->part_info;
  group.add(this, session_bulk_load_threshold(open_.thd()),
            partitions == nullptr ? 1 : partitions->get_tot_partitions());
  state_ = group.is_loading() ? State::Loading : State::Keeping;
}

int BulkInsert::before_insert() {
  if (state_ != State::Keeping) return 0;
  const teak_status status = group_->before_insert(open_.transaction());
  return status == TEAK_OK ? 0 : open_.failure(status);
}

int BulkInsert::after_insert(const std::vector<teak_row_entry> &entries) {
  if (state_ == State::Keeping) {
    const size_t before = kept_.size();
    if (!add_kept(entries)) return open_.out_of_memory();
    if (!group_->note_kept(kept_.size() - before)) return 0;
    teak_status status = TEAK_OK;
    const int error = group_->begin_loads(open_.transaction(), &status);
    return status == TEAK_OK ? error : open_.failure(status);
  }
  if (!inserts_many(*open_.thd()->lex)) return 0;
  BulkInsertGroup &group = open_.session()->bulk_inserts();
  const size_t bytes = bytes_of(entries);
  if (group.pace().is_limited(open_.thd())) group.pace().add_row(open_.thd(), bytes);
  if (group.count_row_by_row(bytes, session_bulk_load_threshold(open_.thd())))
    count(lacks_memory_ ? Refusal::Memory : refusal());
  return 0;
}

bool BulkInsert::add_kept(const std::vector<teak_row_entry> &entries) {
  for (const teak_row_entry &entry : entries) {
    const Header header = {static_cast<uint32_t>(entry.key.len), static_cast<uint32_t>(entry.value.len),
                           entry.unchecked};
    kept_.append(&header, sizeof(header));
    kept_.append(entry.key.data, entry.key.len);
    kept_.append(entry.value.data, entry.value.len);
  }
  return !kept_.failed();
}

/* Calls use() with the entries of each kept row, and frees their memory. */
template <typename Use> int BulkInsert::use_kept(Use use) {
  const uint32_t indexes = open_.share()->indexes();
  std::vector<teak_row_entry> entries(indexes);
  int error = 0;
  for (size_t at = 0; at < kept_.size() && error == 0; error = use(entries)) {
    for (uint32_t index = 0; index < indexes; index++) {
      Header header;
      memcpy(&header, kept_.data() + at, sizeof(header));
      at += sizeof(header);
      const teak_slice key = {kept_.data() + at, header.key_bytes};
      at += header.key_bytes;
      const teak_slice value = {kept_.data() + at, header.value_bytes};
      at += header.value_bytes;
      entries[index] = {index, header.unchecked, key, value};
    }
  }
  drop_kept();
  return error;
}

void BulkInsert::drop_kept() {
  kept_.clear();
  kept_.shrink(0);
}

void BulkInsert::stop() {
  drop_kept();
  state_ = State::Off;
  lacks_memory_ = true;
}

int BulkInsert::open_load() {
  const Share &share = *open_.share();
  const uint32_t indexes = share.indexes();
  // Not std::vector<bool>, which is no array.
  const std::unique_ptr<bool[]> unique(new bool[indexes]);
  unique[0] = !share.hidden_primary();
  for (uint32_t index = 1; index < indexes; index++) unique[index] = share.key(share.key_of(index)).unique;
  const teak_status status =
      teak_load_begin(open_.transaction(), share.table(), unique.get(), indexes, group_->tables(), &load_);
  return status == TEAK_OK ? 0 : open_.failure(status);
}

int BulkInsert::begin_load() {
  state_ = State::Loading;
  if (kept_.empty()) return 0;
  if (int error = open_load()) return error;
  return use_kept([this](const std::vector<teak_row_entry> &entries) {
    const teak_status status = teak_load_add(load_, entries.data(), entries.size());
    return status == TEAK_OK ? 0 : open_.failure(status);
  });
}

int BulkInsert::insert_again() {
  state_ = State::Off;
  lacks_memory_ = true;
  return use_kept([this](const std::vector<teak_row_entry> &entries) {
    teak_duplicate duplicate;
    const teak_status status = teak_transaction_insert(open_.transaction(), open_.share()->table(), entries.data(),
                                                       entries.size(), &duplicate);
    if (status == TEAK_DUPLICATE_KEY) return reporter_.report_late_duplicate(duplicate);
    return status == TEAK_OK ? 0 : open_.failure(status);
  });
}

int BulkInsert::begin_encoding() {
  if (load_ == nullptr)
    if (int error = open_load()) return error;
  encoder_ = std::make_unique<LoadEncoder>(*open_.share(), *open_.table(), group_->tables());
  const teak_status status = encoder_->start(load_);
  return status == TEAK_OK ? 0 : open_.failure(status);
}

int BulkInsert::load(const uchar *record) {
  if (encoder_ == nullptr)
    if (int error = begin_encoding()) return error;
  const size_t bytes = encoder_->add(open_.row_id(), record);
  if (bytes == 0) return open_.out_of_memory();
  InsertPace &pace = group_->pace();
  if (pace.is_limited(open_.thd())) pace.add_row(open_.thd(), bytes);
  return encoder_->is_full() ? pass_rows() : 0;
}

int BulkInsert::pass_rows() {
  const teak_status status = encoder_->pass(load_);
  return status == TEAK_OK ? 0 : open_.failure(status);
}

int BulkInsert::finish() {
  if (encoder_ != nullptr)
    if (int error = pass_rows()) return error;
  if (load_ != nullptr) {
    uint64_t rows = 0;
    teak_duplicate duplicate;
    THD *thd = open_.thd();
    const ProgressReport progress(thd, 1);
    const teak_status status =
        teak_load_finish(load_, open_.transaction(), ProgressReport::report, thd, &rows, &duplicate);
    if (status == TEAK_DUPLICATE_KEY) return reporter_.report_late_duplicate(duplicate);
    if (status != TEAK_OK) return open_.failure(status);
  }
  state_ = State::Off;
  return 0;
}

void BulkInsert::discard() {
  if (is_loading() && !is_announced_) open_.session()->note_discarded_load();
  if (load_ != nullptr) teak_load_end(load_);
  load_ = nullptr;
  encoder_.reset();
  state_ = State::Off;
  was_started_ = is_announced_ = lacks_memory_ = false;
  if (group_ != nullptr) group_->remove(this);
  group_ = nullptr;
  drop_kept();
}

}  // namespace teak
