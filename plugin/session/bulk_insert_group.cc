/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See bulk_insert_group.h. */

#include "session/bulk_insert_group.h"

#include <algorithm>

#include "base/engine.h"

namespace teak {

namespace {

/* Each load syncs its files, so partitions keep more rows before they load them; but not more than this many times
   those of one table. */
constexpr size_t KEPT_FACTOR_MAX = 16;

/* How much memory is taken from the budget at first, and how much more each time, at most. Many connections may insert a
   few rows each. */
constexpr uint64_t MEMORY_STEP_MIN = 16 << 10, MEMORY_STEP_MAX = 256 << 10;

/* If memory is short, loads begin with fewer rows, but not below this part of the limit: a load syncs files and locks a
   range of keys. */
constexpr size_t FEW_SHARE = 8;

}  // namespace

void BulkInsertGroup::add(Member *member, size_t bytes_max, uint32_t tables) {
  bytes_max_ = bytes_max;
  tables_ = tables;
  members_.push_back(member);
}

void BulkInsertGroup::remove(Member *member) {
  members_.erase(std::remove(members_.begin(), members_.end(), member), members_.end());
  if (!members_.empty()) return;
  return_memory();
  kept_bytes_ = 0;
  has_mark_ = is_loading_ = is_stopped_ = false;
}

void BulkInsertGroup::return_memory() {
  if (memory_bytes_ != 0) teak_engine_return_memory(engine, memory_bytes_);
  memory_bytes_ = 0;
}

teak_status BulkInsertGroup::before_insert(teak_transaction *transaction) {
  insertions_++;
  if (has_mark_) return TEAK_OK;
  writes_ = insertions_ = 1;
  // It is newer than the session's own savepoint of the statement.
  const teak_status status = teak_transaction_savepoint(transaction, &mark_);
  has_mark_ = status == TEAK_OK;
  return status;
}

bool BulkInsertGroup::note_kept(size_t bytes) {
  kept_bytes_ += bytes;
  if (kept_bytes_ / std::min(members_.size(), KEPT_FACTOR_MAX) >= bytes_max_) return true;
  if (take_memory()) return false;
  if (kept_bytes_ >= bytes_max_ / FEW_SHARE) return true;
  stop();
  return false;
}

bool BulkInsertGroup::take_memory() {
  while (memory_bytes_ < kept_bytes_) {
    const uint64_t step = std::clamp(memory_bytes_, MEMORY_STEP_MIN, MEMORY_STEP_MAX);
    if (!teak_engine_take_memory(engine, step)) return false;
    memory_bytes_ += step;
  }
  return true;
}

void BulkInsertGroup::stop() {
  for (Member *member : members_) member->stop();
  return_memory();
  is_stopped_ = true;
}

int BulkInsertGroup::begin_loads(teak_transaction *transaction, teak_status *status) {
  const bool rolls_back = writes_ == insertions_;
  if (rolls_back) *status = teak_transaction_rollback_to_savepoint(transaction, mark_);
  if (*status != TEAK_OK) return 0;
  is_loading_ = true;
  // Memory is for those with the most rows.
  std::sort(members_.begin(), members_.end(),
            [](const Member *one, const Member *other) { return one->kept_bytes() > other->kept_bytes(); });
  for (Member *member : members_) {
    if (!rolls_back) member->drop_kept();
    if (int error = teak_engine_has_sort_memory(engine) ? member->begin_load() : member->insert_again()) return error;
  }
  return_memory();
  return 0;
}

bool BulkInsertGroup::count_row_by_row(size_t bytes, size_t bytes_max) {
  row_by_row_bytes_ += bytes;
  row_by_row_rows_++;
  if (counted_ || row_by_row_rows_ == 1 || row_by_row_bytes_ <= bytes_max) return false;
  counted_ = true;
  return true;
}

void BulkInsertGroup::begin_statement() {
  row_by_row_bytes_ = row_by_row_rows_ = 0;
  counted_ = false;
  pace_.begin_statement();
}

}  // namespace teak
