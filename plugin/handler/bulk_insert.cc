/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See bulk_insert.h. */

#include "handler/bulk_insert.h"

#include <cstring>
#include <memory>

#include "monitor/variables.h"

namespace teak {

namespace {

struct Header {
  uint32_t key_bytes, value_bytes;
};

/* Whether the statement only inserts rows, and a duplicate key is an error. */
bool only_inserts(const THD *thd) {
  const LEX &lex = *thd->lex;
  switch (lex.sql_command) {
    case SQLCOM_LOAD:
    case SQLCOM_INSERT:
    case SQLCOM_INSERT_SELECT:
    case SQLCOM_CREATE_TABLE:
      return lex.duplicates == DUP_ERROR && !lex.ignore;
    default:
      return false;
  }
}

/* Whether the server reads rows of the table before it inserts another one. */
bool reads_own_rows(const TABLE &table) {
  const TABLE_SHARE &definition = *table.s;
  const bool numbers_groups = table.found_next_number_field != nullptr && definition.next_number_keypart != 0;
  return table.triggers != nullptr || definition.long_unique_table || definition.period.name.length != 0 ||
         numbers_groups;
}

}  // namespace

bool BulkInsert::is_suitable(ha_rows rows) const {
  const TABLE *table = open_.table();
  THD *thd = open_.thd();
  if (!only_inserts(thd) || thd->slave_thread || reads_own_rows(*table)) return false;
  // The rollback of the first rows of one partition would include rows of others.
  if (open_.is_temporary() || open_.without_rollback() || table->versioned() || table->part_info != nullptr)
    return false;
  // If the number of rows is known, their size can be estimated.
  if (rows != 0 && rows * table->s->reclength < kept_bytes_max_) return false;
  return teak_table_can_load(open_.share()->table());
}

void BulkInsert::start(ha_rows rows) {
  cancel();
  kept_bytes_max_ = session_bulk_load_threshold(open_.thd());
  if (is_suitable(rows)) state_ = State::Keeping;
}

int BulkInsert::before_insert() {
  if (has_mark_) return 0;
  // It is newer than the session's own savepoint of the statement.
  const teak_status status = teak_transaction_savepoint(open_.transaction(), &mark_);
  has_mark_ = status == TEAK_OK;
  return has_mark_ ? 0 : open_.failure(status);
}

int BulkInsert::keep(const std::vector<teak_row_entry> &entries) {
  if (!add_kept(entries)) return open_.out_of_memory();
  return kept_.size() >= kept_bytes_max_ ? begin_load() : 0;
}

bool BulkInsert::add_kept(const std::vector<teak_row_entry> &entries) {
  for (const teak_row_entry &entry : entries) {
    const Header header = {static_cast<uint32_t>(entry.key.len), static_cast<uint32_t>(entry.value.len)};
    kept_.append(&header, sizeof(header));
    kept_.append(entry.key.data, entry.key.len);
    kept_.append(entry.value.data, entry.value.len);
  }
  return !kept_.failed();
}

/* Returns the place of the next row. */
size_t BulkInsert::read_row(size_t at, std::vector<teak_row_entry> *entries) const {
  const uint32_t indexes = open_.share()->indexes();
  entries->resize(indexes);
  for (uint32_t index = 0; index < indexes; index++) {
    Header header;
    memcpy(&header, kept_.data() + at, sizeof(header));
    at += sizeof(header);
    const teak_slice key = {kept_.data() + at, header.key_bytes};
    at += header.key_bytes;
    const teak_slice value = {kept_.data() + at, header.value_bytes};
    at += header.value_bytes;
    (*entries)[index] = {index, false, key, value};
  }
  return at;
}

int BulkInsert::begin_load() {
  teak_status status = teak_transaction_rollback_to_savepoint(open_.transaction(), mark_);
  if (status != TEAK_OK) return open_.failure(status);
  const Share &share = *open_.share();
  const uint32_t indexes = share.indexes();
  // Not std::vector<bool>, which is no array.
  const std::unique_ptr<bool[]> unique(new bool[indexes]);
  unique[0] = !share.hidden_primary();
  for (uint32_t index = 1; index < indexes; index++) unique[index] = share.key(share.key_of(index)).unique;
  status = teak_load_begin(open_.transaction(), share.table(), unique.get(), indexes, &load_);
  if (status != TEAK_OK) return open_.failure(status);
  state_ = State::Loading;
  std::vector<teak_row_entry> entries;
  for (size_t at = 0; at < kept_.size();) {
    at = read_row(at, &entries);
    if (int error = load(entries)) return error;
  }
  kept_.clear();
  kept_.shrink(0);
  return 0;
}

int BulkInsert::load(const std::vector<teak_row_entry> &entries) {
  const teak_status status = teak_load_add(load_, entries.data(), entries.size());
  return status == TEAK_OK ? 0 : open_.failure(status);
}

int BulkInsert::finish(bool *is_duplicate, teak_duplicate *duplicate) {
  uint64_t rows = 0;
  const teak_status status = teak_load_finish(load_, open_.transaction(), nullptr, nullptr, &rows, duplicate);
  *is_duplicate = status == TEAK_DUPLICATE_KEY;
  return status == TEAK_OK || *is_duplicate ? 0 : open_.failure(status);
}

void BulkInsert::cancel() {
  constexpr size_t KEEP_BYTES = 1 << 20;
  if (load_ != nullptr) teak_load_end(load_);
  load_ = nullptr;
  state_ = State::Off;
  has_mark_ = false;
  kept_.clear();
  kept_.shrink(KEEP_BYTES);
}

}  // namespace teak
