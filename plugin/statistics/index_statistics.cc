/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See index_statistics.h. Distinct prefixes are counted by skipping from one to the next, some from the start of the
   index and some from its end. The engine estimates the number of skipped entries. An index with few prefixes is
   counted completely. Statistics of all but small tables are stored in the engine (statistics_store.h), so plans
   remain the same after a restart and nothing is sampled again. */

#include "statistics/index_statistics.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/engine.h"
#include "session/cursor.h"
#include "session/session.h"
#include "statistics/statistics_store.h"

namespace teak {

namespace {

constexpr uint SAMPLES = 16, SAMPLES_OF_ANALYZE = 512;
// Indexes are sampled again if the number of rows has changed by more than this, and by more than a quarter.
constexpr uint64_t ROWS_CHANGED_MIN = 200;
// Minimum number of rows of a table whose samples are stored. The samples of a smaller table are stored only by ANALYZE
// TABLE; otherwise it is sampled again after a restart, which is cheap.
constexpr uint64_t ROWS_KEPT_MIN = 200;
constexpr uint8_t STORED_FORMAT = 1;

/* Reads in a separate transaction: statistics are needed outside of transactions too, and must not wait for locks. */
class Sampler {
 public:
  Sampler(teak_table *table, uint32_t index) : table_(table), index_(index) {}
  ~Sampler() {
    secondary_.reset();
    if (cursor_ != nullptr) teak_cursor_close(cursor_);
    if (transaction_ != nullptr) teak_transaction_rollback(transaction_);
  }
  teak_status open(THD *thd) {
    teak_status status = teak_transaction_begin(engine, TEAK_READ_UNCOMMITTED, &transaction_);
    if (status != TEAK_OK) return status;
    Session *session = Session::find_or_create(thd);
    if (session == nullptr) return TEAK_OUT_OF_MEMORY;
    secondary_.emplace(session, transaction_);
    if (status == TEAK_OK) status = teak_cursor_open(transaction_, table_, index_, TEAK_LOCK_NONE, &cursor_);
    return status;
  }

  /* Skips at most `prefixes_max` distinct prefixes of `parts` parts and adds their number to `distinct`. `whole`
     receives whether the end of the index was reached. If not, the estimated number of skipped entries is added to
     `passed`. */
  teak_status skip_prefixes(const KeyCodec &codec, uint parts, uint prefixes_max, bool forward, uint64_t *distinct,
                            uint64_t *passed, bool *whole) {
    teak_row row;
    ByteBuffer prefix;
    teak_status status = forward ? teak_cursor_first(cursor_, &row) : teak_cursor_last(cursor_, &row);
    for (uint i = 0; status == TEAK_OK && i < prefixes_max; i++) {
      size_t length = 0;
      if (!codec.skip_parts(row.key.data, row.key.len, parts, &length)) return TEAK_CORRUPT;
      prefix.clear();
      if (!prefix.append(row.key.data, length)) return TEAK_OUT_OF_MEMORY;
      ++*distinct;
      status = teak_cursor_seek(cursor_, slice(prefix), forward ? TEAK_SEEK_AFTER_PREFIX : TEAK_SEEK_BEFORE, &row);
    }
    *whole = status == TEAK_NOT_FOUND;
    if (status != TEAK_OK) return *whole ? TEAK_OK : status;
    prefix.clear();
    if (!prefix.append(row.key.data, row.key.len)) return TEAK_OUT_OF_MEMORY;
    uint64_t entries = 0;
    status = teak_index_estimate_entries(table_, index_, forward ? UNBOUNDED : slice(prefix),
                                         forward ? slice(prefix) : UNBOUNDED, &entries);
    *passed += entries;
    return status;
  }

 private:
  teak_table *table_;
  uint32_t index_;
  teak_transaction *transaction_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  std::optional<Session::SecondaryTransaction> secondary_;  // so that KILL interrupts the sampling
};

/* The name, columns and prefix lengths of a key. Stored with the statistics, because ALTER may replace a key. */
std::string shape_of(const KEY &key) {
  std::string shape(key.name.str, key.name.length);
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    shape += '/' + std::to_string(key.key_part[i].fieldnr) + '.' + std::to_string(key.key_part[i].length);
  return shape;
}

}  // namespace

void IndexStatistics::init(teak_table *table, uint64_t table_id, std::vector<Index> indexes) {
  table_ = table;
  table_id_ = table_id;
  indexes_ = std::move(indexes);
}

teak_status IndexStatistics::sample(THD *thd, const Index &index, uint64_t rows, uint samples, Density *density) {
  const KeyCodec &codec = *index.codec;
  Sampler sampler(table_, index.number);
  teak_status status = sampler.open(thd);
  if (status != TEAK_OK) return status;
  density->assign(codec.parts(), 1.0);
  double coarser = static_cast<double>(rows);
  for (uint parts = 1; parts <= codec.parts(); parts++) {
    if (parts == codec.parts() && index.unique && !index.nullable) break;
    uint64_t distinct = 0, passed = 0;
    bool whole = false;
    status = sampler.skip_prefixes(codec, parts, samples, true, &distinct, &passed, &whole);
    if (status != TEAK_OK) return status;
    if (!whole) {
      bool unused;
      status = sampler.skip_prefixes(codec, parts, samples, false, &distinct, &passed, &unused);
      if (status != TEAK_OK) return status;
    }
    double entries = static_cast<double>(whole ? rows : passed);
    double of_one = distinct == 0 ? 1.0 : entries / static_cast<double>(distinct);
    coarser = (*density)[parts - 1] = std::min(coarser, std::max(of_one, 1.0));
  }
  return TEAK_OK;
}

/* Format | rows | for each key: length of its shape, shape, number of parts, a double for each part. Little-endian. */
std::string IndexStatistics::encode(const TABLE *table) const {
  std::string bytes(1 + 8, '\0');
  bytes[0] = STORED_FORMAT;
  int8store(reinterpret_cast<uchar *>(&bytes[1]), rows_.load());
  for (uint number = 0; number < keys(); number++) {
    const std::string shape = shape_of(table->key_info[number]);
    const Density &density = densities_[number];
    char head[4];
    int2store(head, static_cast<uint16>(shape.size()));
    bytes.append(head, 2).append(shape);
    int2store(head, static_cast<uint16>(density.size()));
    bytes.append(head, 2);
    for (double of_one : density) {
      uchar value[8];
      float8store(value, of_one);
      bytes.append(reinterpret_cast<const char *>(value), sizeof(value));
    }
  }
  return bytes;
}

/* Returns false if the bytes belong to other keys or are malformed. */
bool IndexStatistics::decode(const TABLE *table, const std::string &bytes) {
  const auto *at = reinterpret_cast<const uchar *>(bytes.data()), *end = at + bytes.size();
  auto left = [&] { return static_cast<size_t>(end - at); };
  if (left() < 9 || at[0] != STORED_FORMAT) return false;
  const uint64_t rows = uint8korr(at + 1);
  at += 9;
  std::vector<Density> densities(keys());
  for (uint number = 0; number < keys(); number++) {
    const std::string shape = shape_of(table->key_info[number]);
    if (left() < 2 || uint2korr(at) != shape.size() || left() < 2 + shape.size() + 2 ||
        memcmp(at + 2, shape.data(), shape.size()) != 0)
      return false;
    at += 2 + shape.size();
    const size_t parts = uint2korr(at);
    at += 2;
    if (parts != indexes_[number].codec->parts() || left() < parts * 8) return false;
    densities[number].resize(parts);
    for (double &of_one : densities[number]) {
      float8get(of_one, at);
      if (!(of_one >= 1.0)) return false;
      at += 8;
    }
  }
  if (at != end) return false;
  densities_.swap(densities);
  rows_ = rows;
  return true;
}

teak_status IndexStatistics::refresh(THD *thd, const TABLE *table, uint64_t rows, bool force) try {
  if (!has_statistics_ && !force) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::string kept;
    if (table_id_ != 0 && !tried_store_ && !has_statistics_ && statistics_store::load(table_id_, &kept) &&
        decode(table, kept)) {
      has_statistics_ = true;
      write_into(table);
    }
    tried_store_ = true;
  }
  const uint64_t before = rows_;
  const uint64_t changed = rows > before ? rows - before : before - rows;
  const bool stale = !has_statistics_ || changed > std::max(before / 4, ROWS_CHANGED_MIN);
  if (!force && !stale) return TEAK_OK;
  std::unique_lock<std::mutex> guard(mutex_, std::defer_lock);
  if (force || !has_statistics_)
    guard.lock();
  else if (!guard.try_lock())
    return TEAK_OK;  // another connection is sampling; the old statistics are used until it has finished
  if (!force && has_statistics_ && rows_ != before) return TEAK_OK;

  std::vector<Density> densities(keys());
  for (uint number = 0; number < keys(); number++) {
    teak_status status = sample(thd, indexes_[number], rows, force ? SAMPLES_OF_ANALYZE : SAMPLES, &densities[number]);
    if (status != TEAK_OK) return status;
  }
  densities_.swap(densities);
  rows_ = rows;
  has_statistics_ = true;
  write_into(table);
  if (table_id_ != 0 && (force || rows >= ROWS_KEPT_MIN)) statistics_store::save(table_id_, encode(table), force);
  return TEAK_OK;
} catch (const std::bad_alloc &) {
  return TEAK_OUT_OF_MEMORY;
}

void IndexStatistics::publish(const TABLE *table) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (has_statistics_) write_into(table);
}

/* All TABLEs of the TABLE_SHARE share the server's statistics. */
void IndexStatistics::write_into(const TABLE *table) const {
  for (uint number = 0; number < keys(); number++) {
    const KEY &server_key = table->key_info[number];
    const Density &density = densities_[number];
    if (server_key.rec_per_key == nullptr || density.empty()) continue;
    for (uint part = 0; part < server_key.ext_key_parts; part++) {
      double of_one = 1.0;  // with the complete primary key appended, an entry is one row
      if (part < density.size())
        of_one = density[part];
      else if (part + 1 < server_key.ext_key_parts)
        of_one = std::max(1.0, density.back() / 2);
      server_key.rec_per_key[part] = static_cast<ulong>(of_one + 0.5);
    }
  }
}

}  // namespace teak
