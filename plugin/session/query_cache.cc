/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See query_cache.h. */

#include "session/query_cache.h"

#include <map>
#include <mutex>
#include <new>
#include <string>

#include "base/engine.h"
#include "session/session.h"

namespace teak {

namespace query_cache_use {

std::atomic<bool> counts_writes{false};

namespace {

constexpr size_t CACHE_LINE_BYTES = 64;

struct alignas(CACHE_LINE_BYTES) Slot {
  std::atomic<uint64_t> newest_commit{0};
  std::atomic<uint64_t> changes{0};
  std::atomic<uint32_t> writers{0};

  void change() {
    const uint64_t newest = teak_engine_get_newest_commit(engine);
    uint64_t known = newest_commit.load(std::memory_order_relaxed);
    while (known < newest && !newest_commit.compare_exchange_weak(known, newest, std::memory_order_relaxed)) {
    }
    changes.fetch_add(1, std::memory_order_release);
  }
  void leave() {
    change();
    writers.fetch_sub(1, std::memory_order_release);
  }
};

Slot slots[SLOTS];

/* The server stores a number with each result: the number of changes, with the slot's number in the low bits. */
constexpr ulonglong SLOT_BITS = 16;

constexpr ulonglong data_of(SlotNumber slot, uint64_t changes) { return changes << SLOT_BITS | slot; }
constexpr SlotNumber slot_of_data(ulonglong data) { return static_cast<SlotNumber>(data & ((1U << SLOT_BITS) - 1)); }

struct SlotState {
  bool is_written;
  ulonglong data;
  uint64_t newest_commit;
};

SlotState state_of(SlotNumber number) {
  const Slot &slot = slots[number];
  const bool is_written = slot.writers.load(std::memory_order_acquire) != 0;
  const uint64_t changes = slot.changes.load(std::memory_order_acquire);
  return {is_written, data_of(number, changes), slot.newest_commit.load(std::memory_order_relaxed)};
}

std::mutex settling;  // guards knows_first and first_counted; taken before the engine's locks
bool knows_first = false;
uint64_t first_counted = 0;  // transactions from this number on enter slots
std::atomic<bool> settled{false};

/* Whether every active transaction has entered the slots of the tables that it has written. */
bool is_settled() {
  if (settled.load(std::memory_order_acquire)) return true;
  std::lock_guard<std::mutex> guard(settling);
  uint64_t oldest = 0, next = 0;
  if (!knows_first || teak_engine_get_running_transactions(engine, &oldest, &next) != TEAK_OK || oldest < first_counted)
    return false;
  // All transactions that did not enter slots have ended. Stores the newest of their commits in every slot.
  for (Slot &slot : slots) slot.change();
  settled.store(true, std::memory_order_release);
  return true;
}

std::mutex prepared_mutex;  // guards `prepared`; nothing else is locked under it
std::map<std::string, std::vector<SlotNumber>, std::less<>> prepared;

std::string_view view(teak_slice bytes) { return {reinterpret_cast<const char *>(bytes.data), bytes.len}; }

}  // namespace

SlotNumber slot_of(std::string_view path) {
  return static_cast<SlotNumber>(std::hash<std::string_view>()(path) % SLOTS);
}

void begin_counting() {
  std::lock_guard<std::mutex> guard(settling);
  if (knows_first) return;
  counts_writes.store(true);
  uint64_t oldest = 0;
  knows_first = teak_engine_get_running_transactions(engine, &oldest, &first_counted) == TEAK_OK;
}

void forget_all() {
  std::lock_guard<std::mutex> guard(settling);
  settled.store(false);
  knows_first = false;
  counts_writes.store(false);
  // A reopened engine counts its commits from the beginning.
  for (Slot &slot : slots) {
    slot.newest_commit.store(0);
    slot.changes.fetch_add(1);
    slot.writers.store(0);
  }
  std::lock_guard<std::mutex> prepared_guard(prepared_mutex);
  prepared.clear();
}

void table_changed(const char *path) {
  if (is_counting()) slots[slot_of(path)].change();
}

void Writes::enter_new(SlotNumber slot) {
  slots_.push_back(slot);
  is_in_.set(slot);
  slots[slot].writers.fetch_add(1, std::memory_order_relaxed);
}

void Writes::leave_all() {
  for (SlotNumber slot : slots_) {
    slots[slot].leave();
    is_in_.reset(slot);
  }
  slots_.clear();
}

void Writes::leave_to(teak_slice xid) try {
  if (!any()) return;
  for (SlotNumber slot : slots_) is_in_.reset(slot);
  std::lock_guard<std::mutex> guard(prepared_mutex);
  prepared[std::string(view(xid))] = std::move(slots_);
  slots_.clear();
} catch (const std::bad_alloc &) {
  slots_.clear();
}

void ended_by_xid(teak_slice xid) {
  if (!is_counting()) return;
  std::lock_guard<std::mutex> guard(prepared_mutex);
  auto found = prepared.find(view(xid));
  if (found == prepared.end()) return;
  for (SlotNumber slot : found->second) slots[slot].leave();
  prepared.erase(found);
}

bool may_keep(const teak_transaction *reader, SlotNumber slot, ulonglong *data) {
  if (!is_settled()) return false;
  const SlotState now = state_of(slot);
  *data = now.data;
  const uint64_t snapshot = reader == nullptr ? 0 : teak_transaction_get_snapshot_commit(reader);
  return !now.is_written && (snapshot == 0 || snapshot >= now.newest_commit);
}

my_bool still_valid(THD *thd, const char *, uint, ulonglong *data) {
  if (thd_tx_isolation(thd) == ISO_SERIALIZABLE || !is_settled()) return false;
  uint64_t snapshot = UINT64_MAX;
  if (in_multi_statement_transaction(thd)) {
    // Later reads of the transaction must be consistent with this result.
    Session *session = Session::find_or_create(thd);
    if (session == nullptr || session->use() != 0 || teak_transaction_take_snapshot(session->transaction()) != TEAK_OK)
      return false;
    snapshot = teak_transaction_get_snapshot_commit(session->transaction());
  }
  const SlotState now = state_of(slot_of_data(*data));
  if (now.data != *data) {
    *data = now.data;
    return false;
  }
  return !now.is_written && snapshot >= now.newest_commit;
}

}  // namespace query_cache_use

}  // namespace teak
