/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See index_sampler.h. */

#include "statistics/index_sampler.h"

#include <algorithm>
#include <cmath>

#include "base/engine.h"
#include "session/cursor.h"

namespace teak {

namespace {

// Ranges of this many entries are not halved, but passed one by one.
constexpr uint64_t ENTRIES_PASSED_MAX = 500;
// Bounds of the search of one place. Keys may begin with many equal bytes, except a few of them; later searches start from what
// the first ones found. The engine's counts may not tell keys in the same page apart.
constexpr uint HALVINGS_MAX = 512;
constexpr uint64_t ENTRIES_OF_PAGE_MAX = 2000;
constexpr uint HALVINGS_OF_PAGE = 16;
// So many entries are sampled even if the time is over.
constexpr uint SAMPLES_MIN = 4;
// Part of the time in which distinct prefixes are counted.
constexpr int COUNTING_PART = 4;
// Bound of the keys that are remembered for the searches of other places.
constexpr size_t KNOWN_KEYS_MAX = 4096;

using Digits = unsigned __int128;
constexpr size_t DIGITS_BYTES = sizeof(Digits);

Digits digits_of(const std::string &key, size_t from) {
  Digits digits = 0;
  for (size_t i = from; i < from + DIGITS_BYTES; i++)
    digits = digits << 8 | (i < key.size() ? static_cast<uint8_t>(key[i]) : 0);
  return digits;
}

/* A key between the two, near the middle; empty: there is none that differs in the digits that are compared. */
std::string middle_of(const std::string &low, const std::string &high) {
  size_t common = 0;
  while (common < low.size() && common < high.size() && low[common] == high[common]) common++;
  const Digits from = digits_of(low, common), to = digits_of(high, common);
  if (to <= from || to - from < 2) return {};
  Digits middle = from + (to - from) / 2;
  std::string key(low, 0, common);
  key.resize(common + DIGITS_BYTES);
  for (size_t i = DIGITS_BYTES; i > 0; i--, middle >>= 8) key[common + i - 1] = static_cast<char>(middle);
  return key;
}

std::string key_of(const teak_row &row) {
  return std::string(reinterpret_cast<const char *>(row.key.data), row.key.len);
}

/* The place of a sample, as a part of the whole. */
double part_of_place(uint number) {
  constexpr double GOLDEN_RATIO = 0.6180339887498949;
  double whole;
  return std::modf((number + 0.5) * GOLDEN_RATIO, &whole);
}

}  // namespace

IndexSampler::~IndexSampler() {
  secondary_.reset();
  if (cancellation_ != nullptr) cancellation_->set_transaction(nullptr);
  if (cursor_ != nullptr) teak_cursor_close(cursor_);
  if (transaction_ != nullptr) teak_transaction_rollback(transaction_);
}

teak_status IndexSampler::open(THD *thd, Cancellation *cancellation) {
  teak_status status = teak_transaction_begin(engine, TEAK_READ_UNCOMMITTED, &transaction_);
  if (status != TEAK_OK) return status;
  if (thd != nullptr) {
    Session *session = Session::find_or_create(thd);
    if (session == nullptr) return TEAK_OUT_OF_MEMORY;
    secondary_.emplace(session, transaction_);
  } else {
    cancellation_ = cancellation;
    cancellation_->set_transaction(transaction_);
  }
  return teak_cursor_open(transaction_, table_, index_, TEAK_LOCK_NONE, &cursor_);
}

teak_status IndexSampler::measure(const KeyCodec &codec, uint parts, uint64_t rows, const SampleLimits &limits,
                                  Density *density) {
  SampleLimits counting = limits;
  const SampleClock::time_point now = SampleClock::now();
  counting.deadline = now + (limits.deadline - now) / COUNTING_PART;
  uint part = 0;
  for (; part < parts; part++) {
    uint64_t distinct = 0;
    bool whole = false;
    const teak_status status = count_prefixes(codec, part + 1, counting, &distinct, &whole);
    if (status != TEAK_OK) return status;
    if (!whole) break;
    (*density)[part] = std::max(1.0, static_cast<double>(rows) / static_cast<double>(std::max<uint64_t>(distinct, 1)));
  }
  return part == parts ? TEAK_OK : sample_groups(codec, part, parts, rows, limits, density);
}

/* `whole` receives whether the end of the index was reached. */
teak_status IndexSampler::count_prefixes(const KeyCodec &codec, uint parts, const SampleLimits &limits,
                                         uint64_t *distinct, bool *whole) {
  teak_row row;
  ByteBuffer prefix;
  teak_status status = teak_cursor_first(cursor_, &row);
  while (status == TEAK_OK && *distinct < limits.samples && !limits.is_over()) {
    size_t length = 0;
    if (!codec.skip_parts(row.key.data, row.key.len, parts, &length)) return TEAK_CORRUPT;
    prefix.clear();
    if (!prefix.append(row.key.data, length)) return TEAK_OUT_OF_MEMORY;
    ++*distinct;
    status = teak_cursor_seek(cursor_, slice(prefix), TEAK_SEEK_AFTER_PREFIX, &row);
  }
  *whole = status == TEAK_NOT_FOUND;
  return *whole ? TEAK_OK : status;
}

/* Sets the density from part number `first` on, from the sizes of the groups of chosen entries. */
teak_status IndexSampler::sample_groups(const KeyCodec &codec, uint first, uint parts, uint64_t rows,
                                        const SampleLimits &limits, Density *density) {
  teak_status status = find_ends();
  if (status == TEAK_NOT_FOUND) return TEAK_OK;
  if (status != TEAK_OK) return status;
  const auto entries = static_cast<double>(rows);
  std::vector<double> distinct(parts, 0.0);  // of the sampled entries
  uint samples = 0;
  do {
    teak_row row;
    status = go_to(static_cast<uint64_t>(part_of_place(samples) * entries), limits, &row);
    if (status == TEAK_NOT_FOUND) break;  // all entries were deleted
    if (status != TEAK_OK) return status;
    const std::string key = key_of(row);
    uint64_t group = UINT64_MAX;
    for (uint part = first; part < parts; part++) {
      size_t length = 0;
      if (!codec.skip_parts(slice_of(key).data, key.size(), part + 1, &length)) return TEAK_CORRUPT;
      // In a group of one entry, the finer groups have one entry, too.
      if (group > 1) status = group_size({slice_of(key).data, length}, &group);
      if (status != TEAK_OK) return status;
      distinct[part] += 1.0 / static_cast<double>(group);
    }
    samples++;
    if (limits.is_cancelled()) return TEAK_INTERRUPTED;
  } while (samples < limits.samples && (samples < SAMPLES_MIN || !limits.is_over()));
  if (samples == 0) return TEAK_OK;
  double coarser = first == 0 ? std::max(1.0, entries) : (*density)[first - 1];
  for (uint part = first; part < parts; part++)
    coarser = (*density)[part] = std::clamp(samples / distinct[part], 1.0, coarser);
  return TEAK_OK;
}

teak_status IndexSampler::find_ends() {
  teak_row row;
  teak_status status = teak_cursor_first(cursor_, &row);
  if (status != TEAK_OK) return status;
  known_[0] = key_of(row);
  status = teak_cursor_last(cursor_, &row);
  if (status != TEAK_OK) return status;
  known_[UINT64_MAX] = key_of(row);
  return TEAK_OK;
}

teak_status IndexSampler::entries_before(const std::string &key, uint64_t *entries) {
  return teak_index_estimate_entries(table_, index_, UNBOUNDED, slice_of(key), entries);
}

/* Reads the entry at a place. */
teak_status IndexSampler::go_to(uint64_t place, const SampleLimits &limits, teak_row *row) {
  auto above = known_.upper_bound(place);
  if (above == known_.end()) above = std::prev(above);
  auto below = above == known_.begin() ? above : std::prev(above);
  uint64_t before_low = below->first, before_high = above->first;
  std::string low = below->second, high = above->second;
  uint unchanged = 0;  // halvings in a row in which the counts did not change
  for (uint i = 0; i < HALVINGS_MAX && before_high - before_low > ENTRIES_PASSED_MAX; i++) {
    if (unchanged > HALVINGS_OF_PAGE && before_high - before_low <= ENTRIES_OF_PAGE_MAX) break;
    if (limits.is_cancelled()) return TEAK_INTERRUPTED;
    std::string middle = middle_of(low, high);
    if (middle.empty()) break;
    uint64_t before = 0;
    const teak_status status = entries_before(middle, &before);
    if (status != TEAK_OK) return status;
    // The estimates of a growing index may not be in order.
    before = std::clamp(before, before_low, before_high);
    unchanged = before == before_low || before == before_high ? unchanged + 1 : 0;
    // Of keys with the same count, the last one is the nearest.
    if (known_.size() < KNOWN_KEYS_MAX || known_.count(before) != 0) known_.insert_or_assign(before, middle);
    if (before <= place) {
      low = std::move(middle);
      before_low = before;
    } else {
      high = std::move(middle);
      before_high = before;
    }
  }
  teak_status status = teak_cursor_seek(cursor_, slice_of(low), TEAK_SEEK_AT_OR_AFTER, row);
  for (uint64_t i = std::min(place - std::min(place, before_low), ENTRIES_OF_PAGE_MAX); i > 0 && status == TEAK_OK; i--)
    status = teak_cursor_next(cursor_, row);
  // There are fewer entries than estimated.
  return status == TEAK_NOT_FOUND ? teak_cursor_last(cursor_, row) : status;
}

/* The number of entries that begin with the prefix. */
teak_status IndexSampler::group_size(teak_slice prefix, uint64_t *entries) {
  ByteBuffer after;
  if (!after.append(prefix.data, prefix.len)) return TEAK_OUT_OF_MEMORY;
  const teak_slice upper = to_prefix_successor(&after) ? slice(after) : UNBOUNDED;
  const teak_status status = teak_index_estimate_entries(table_, index_, prefix, upper, entries);
  *entries = std::max<uint64_t>(*entries, 1);
  return status;
}

}  // namespace teak
