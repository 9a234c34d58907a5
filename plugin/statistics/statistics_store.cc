/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See statistics_store.h. */

#include "statistics/statistics_store.h"

#include "base/server_version.h"

#include <mutex>

#include "base/engine.h"
#include "base/errors.h"

namespace teak {

namespace statistics_store {

namespace {

constexpr char TABLE_NAME[] = "teak.statistics";
constexpr uint32_t LOCK_TIMEOUT_MILLISECONDS = 1000;
constexpr size_t ID_BYTES = 8;

std::mutex mutex;  // guards `table`; no lock of the server is taken under it
teak_table *table = nullptr;

/* Opens the table of statistics on first use; `create`: creates it if it does not exist. */
teak_status open_table(bool create, teak_table **opened) {
  std::lock_guard<std::mutex> guard(mutex);
  teak_status status = TEAK_OK;
  if (table == nullptr) {
    status = teak_table_open(engine, slice_of(TABLE_NAME), &table);
    if (status == TEAK_NO_SUCH_TABLE && create) {
      const teak_index_definition index = {slice_of("main"),
                                           TEAK_CODEC_LZ4,
                                           4096,
                                           true,
                                           0,
                                           TEAK_SUFFIX_NONE,
                                           0,
                                           nullptr,
                                           0,
                                           nullptr,
                                           0,
                                           nullptr,
                                           0,
                                           nullptr,
                                           0,
                                           0};
      const teak_table_definition definition = {
          sizeof(teak_table_definition), sizeof(teak_index_definition), slice_of(TABLE_NAME), &index, 1, {nullptr, 0}};
      status = teak_table_create(engine, &definition);
      if (status == TEAK_OK) status = teak_table_open(engine, slice_of(TABLE_NAME), &table);
    }
    if (status != TEAK_OK) table = nullptr;
  }
  *opened = table;
  return status;
}

/* A separate transaction with a cursor on one table's row. */
class Row {
 public:
  explicit Row(uint64_t id) { mi_int8store(id_, id); }  // big-endian, so that keys are in the order of the ids
  ~Row() {
    if (cursor_ != nullptr) teak_cursor_close(cursor_);
    if (transaction_ != nullptr) teak_transaction_rollback(transaction_);
  }
  Row(const Row &) = delete;
  Row &operator=(const Row &) = delete;

  teak_status find(teak_lock_mode mode, bool create, teak_row *row) {
    teak_status status = open_table(create, &table_);
    if (status == TEAK_NO_SUCH_TABLE) return TEAK_NOT_FOUND;
    if (status == TEAK_OK) status = teak_transaction_begin(engine, TEAK_READ_COMMITTED, &transaction_);
    if (status == TEAK_OK) status = teak_transaction_set_lock_timeout(transaction_, LOCK_TIMEOUT_MILLISECONDS);
    if (status == TEAK_OK) status = teak_cursor_open(transaction_, table_, 0, mode, &cursor_);
    if (status == TEAK_OK) status = teak_cursor_get(cursor_, key(), row);
    found_ = status == TEAK_OK;
    return status;
  }

  teak_status write(const std::string &bytes) {
    const teak_slice value = slice_of(bytes);
    if (found_) {
      const teak_row_change change = {0, false, key(), key(), value};
      return teak_transaction_update(transaction_, table_, &change, 1, nullptr);
    }
    const teak_row_entry entry = {0, false, key(), value};
    return teak_transaction_insert(transaction_, table_, &entry, 1, nullptr);
  }

  teak_status remove() {
    const teak_row_entry entry = {0, false, key(), {nullptr, 0}};
    return found_ ? teak_transaction_delete(transaction_, table_, &entry, 1) : TEAK_OK;
  }

  teak_status commit(bool durable) {
    teak_cursor_close(cursor_);
    cursor_ = nullptr;
    teak_status status = teak_transaction_set_commit_sync(transaction_, durable);
    if (status == TEAK_OK) status = teak_transaction_commit(transaction_);
    if (status == TEAK_OK) transaction_ = nullptr;
    return status;
  }

 private:
  teak_slice key() const { return {id_, ID_BYTES}; }

  uint8_t id_[ID_BYTES];
  teak_table *table_ = nullptr;
  teak_transaction *transaction_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  bool found_ = false;
};

void warn(const char *what) { sql_print_warning("TEAK: statistics were not %s: %s", what, LastErrorText().c_str()); }

}  // namespace

bool is_name(teak_slice name) {
  return name.len == sizeof(TABLE_NAME) - 1 && memcmp(name.data, TABLE_NAME, name.len) == 0;
}

bool load(uint64_t table_id, std::string *bytes) {
  Row row(table_id);
  teak_row found;
  teak_status status = row.find(TEAK_LOCK_NONE, false, &found);
  if (status == TEAK_OK) bytes->assign(reinterpret_cast<const char *>(found.value.data), found.value.len);
  if (status != TEAK_OK && status != TEAK_NOT_FOUND) warn("read");
  return status == TEAK_OK;
}

void save(uint64_t table_id, const std::string &bytes, bool durable) {
  Row row(table_id);
  teak_row found;
  teak_status status = row.find(TEAK_LOCK_EXCLUSIVE, true, &found);
  if (status == TEAK_OK || status == TEAK_NOT_FOUND) status = row.write(bytes);
  if (status == TEAK_OK) status = row.commit(durable);
  if (status != TEAK_OK) warn("written");
}

void forget(uint64_t table_id) {
  Row row(table_id);
  teak_row found;
  teak_status status = row.find(TEAK_LOCK_EXCLUSIVE, false, &found);
  if (status == TEAK_NOT_FOUND) return;
  if (status == TEAK_OK) status = row.remove();
  if (status == TEAK_OK) status = row.commit(false);
  if (status != TEAK_OK) warn("removed");
}

void close() {
  std::lock_guard<std::mutex> guard(mutex);
  if (table != nullptr) teak_table_close(table);
  table = nullptr;
}

}  // namespace statistics_store

}  // namespace teak
