/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See index_statistics.h. Statistics of all but small tables are stored in the engine (statistics_store.h), so plans remain
   the same after a restart and nothing is sampled again. */

#include "statistics/index_statistics.h"

#include <algorithm>
#include <new>

#include "base/engine.h"
#include "base/errors.h"
#include "monitor/measurements.h"
#include "monitor/variables.h"
#include "statistics/statistics_store.h"

#include "partition_info.h"

namespace teak {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A statement that finds no statistics samples so much.
constexpr uint SAMPLES_OF_STATEMENT = 16;
constexpr milliseconds STATEMENT_TIME(100);
// ANALYZE TABLE and the background thread, in the time of teak_analyze_time.
constexpr uint SAMPLES = 512;
// Tables of fewer rows are small: their samples are stored only by ANALYZE TABLE, and statements sample them again when
// they have grown by more than this.
constexpr uint64_t ROWS_OF_SMALL_TABLE = 200;
// The background thread samples a table again after this part of its rows has changed, but not more often than this.
constexpr double CHANGED_PART = 0.3;
constexpr seconds INTERVAL(10);
constexpr int INTERVAL_PER_DURATION = 20;
constexpr seconds INTERVAL_AFTER_FAILURE(600);
constexpr uint8_t STORED_FORMAT = 1;

}  // namespace

std::string IndexStatistics::shape_of(const KEY &key) {
  std::string shape(key.name.str, key.name.length);
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    shape += '/' + std::to_string(key.key_part[i].fieldnr) + '.' + std::to_string(key.key_part[i].length);
  return shape;
}

void IndexStatistics::init(teak_table *table, uint64_t table_id, std::vector<Index> indexes) {
  table_ = table;
  table_id_ = table_id;
  indexes_ = std::move(indexes);
}

/* Format | rows | for each key: length of its shape, shape, number of parts, a double for each part. Little-endian. */
std::string IndexStatistics::encode() const {
  std::string bytes(1 + 8, '\0');
  bytes[0] = STORED_FORMAT;
  int8store(reinterpret_cast<uchar *>(&bytes[1]), rows_.load());
  for (size_t number = 0; number < indexes_.size(); number++) {
    const std::string &shape = indexes_[number].shape;
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
bool IndexStatistics::decode(const std::string &bytes) {
  const auto *at = reinterpret_cast<const uchar *>(bytes.data()), *end = at + bytes.size();
  auto left = [&] { return static_cast<size_t>(end - at); };
  if (left() < 9 || at[0] != STORED_FORMAT) return false;
  const uint64_t rows = uint8korr(at + 1);
  at += 9;
  std::vector<Density> densities(indexes_.size());
  for (size_t number = 0; number < indexes_.size(); number++) {
    const std::string &shape = indexes_[number].shape;
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
  install(std::move(densities), rows, 0, false, false);
  return true;
}

/* Called under the mutex of sampling. */
void IndexStatistics::load() {
  if (tried_store_ || table_id_ == 0) return;
  tried_store_ = true;
  std::string stored;
  if (statistics_store::load(table_id_, &stored)) decode(stored);
}

teak_status IndexStatistics::refresh(THD *thd, const TABLE *table, uint64_t rows) try {
  if (indexes_.empty()) return TEAK_OK;
  const auto needs_sample = [&] {
    if (!has_statistics_) return true;
    const bool is_small = std::min<uint64_t>(rows_, rows) < ROWS_OF_SMALL_TABLE;
    // The background thread does not sample temporary tables.
    if (!is_small && table_id_ != 0) return false;
    return difference(rows) > (is_small ? ROWS_OF_SMALL_TABLE : rows_.load());
  };
  if (needs_sample()) {
    // While another connection samples, the old statistics are used. If there are none, and it needs much time (ANALYZE TABLE),
    // the statement is planned without.
    std::unique_lock<std::timed_mutex> guard(sampling_mutex_, std::defer_lock);
    if (!(has_statistics_ ? guard.try_lock() : guard.try_lock_for(STATEMENT_TIME))) return TEAK_OK;
    load();
    if (needs_sample())
      if (const teak_status status = sample_few(thd, rows); status != TEAK_OK) return status;
  }
  request_sampling(rows);
  if (is_unpublished_ && is_typical(table)) publish(table);
  return TEAK_OK;
} catch (const std::bad_alloc &) {
  return TEAK_OUT_OF_MEMORY;
}

teak_status IndexStatistics::analyze(THD *thd, const TABLE *table, uint64_t rows) try {
  std::lock_guard<std::timed_mutex> guard(sampling_mutex_);
  load();
  const teak_status status = sample_many(thd, rows, nullptr, true);
  if (status == TEAK_OK) publish(table);
  return status;
} catch (const std::bad_alloc &) {
  return TEAK_OUT_OF_MEMORY;
}

void IndexStatistics::forget() {
  stop_sampling();
  if (table_id_ != 0) statistics_store::forget(table_id_);
}

/* How many rows more or less than when the table was sampled. */
uint64_t IndexStatistics::difference(uint64_t rows) const {
  const uint64_t before = rows_;
  return rows > before ? rows - before : before - rows;
}

/* The number of rows that were inserted, updated or deleted since the table was sampled, as far as known. */
uint64_t IndexStatistics::changes(uint64_t rows) const {
  return std::max(difference(rows), written_rows_.load(std::memory_order_relaxed) - written_before_);
}

void IndexStatistics::request_sampling(uint64_t rows) {
  if (table_id_ == 0 || rows < ROWS_OF_SMALL_TABLE || !auto_analyze()) return;
  if (!has_few_samples_ && static_cast<double>(changes(rows)) <= CHANGED_PART * static_cast<double>(rows_)) return;
  if (SampleClock::now() >= next_request_.load(std::memory_order_relaxed)) background_sampling::request(this);
}

/* Called by the background thread. */
void IndexStatistics::run(Cancellation *cancellation) {
  const SampleClock::time_point began = SampleClock::now();
  teak_index_statistics index = {};
  index.struct_size = sizeof(index);
  teak_status status = teak_index_get_statistics(table_, 0, &index);
  try {
    if (status == TEAK_OK) status = sample_many(nullptr, index.entries, cancellation, false);
  } catch (const std::bad_alloc &) {
    status = TEAK_OUT_OF_MEMORY;
  }
  const SampleClock::time_point ended = SampleClock::now();
  next_request_ = ended + std::max<SampleClock::duration>(INTERVAL, INTERVAL_PER_DURATION * (ended - began));
  if (status == TEAK_OK) {
    tables_analyzed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (cancellation->is_cancelled()) return;
  next_request_ = ended + INTERVAL_AFTER_FAILURE;
  sql_print_warning("TEAK: a table was not sampled in the background: %s", LastErrorText().c_str());
}

/* Called under the mutex of sampling. */
teak_status IndexStatistics::sample_few(THD *thd, uint64_t rows) {
  const uint64_t written_before = written_rows_;
  std::vector<Density> densities;
  const SampleLimits limits = {SAMPLES_OF_STATEMENT, SampleClock::now() + STATEMENT_TIME};
  const teak_status status = sample(thd, rows, limits, &densities);
  if (status != TEAK_OK) return status;
  has_few_samples_ = true;
  // If the background thread will sample more, these need not be stored, and are not found instead of those after a restart.
  const bool store = rows >= ROWS_OF_SMALL_TABLE && !auto_analyze();
  install(std::move(densities), rows, written_before, store, false);
  return TEAK_OK;
}

teak_status IndexStatistics::sample_many(THD *thd, uint64_t rows, Cancellation *cancellation, bool durable) {
  const uint64_t written_before = written_rows_;
  std::vector<Density> densities;
  const SampleLimits limits = {SAMPLES, SampleClock::now() + seconds(analyze_seconds(thd)), cancellation};
  const teak_status status = sample(thd, rows, limits, &densities);
  if (status != TEAK_OK) return status;
  has_few_samples_ = false;
  install(std::move(densities), rows, written_before, true, durable);
  return TEAK_OK;
}

/* Each index gets an equal part of the time that is left. */
teak_status IndexStatistics::sample(THD *thd, uint64_t rows, const SampleLimits &limits,
                                    std::vector<Density> *densities) const {
  densities->clear();
  for (const Index &index : indexes_) {
    const SampleClock::time_point now = SampleClock::now();
    const auto left = std::max(limits.deadline - now, SampleClock::duration::zero());
    SampleLimits of_index = limits;
    of_index.deadline = now + left / (indexes_.size() - densities->size());
    const uint parts = index.codec->parts();
    Density density(parts, 1.0);
    IndexSampler sampler(table_, index.number);
    teak_status status = sampler.open(thd, limits.cancellation);
    if (status == TEAK_OK)
      status =
          sampler.measure(*index.codec, index.unique && !index.nullable ? parts - 1 : parts, rows, of_index, &density);
    if (status != TEAK_OK) return status;
    densities->push_back(std::move(density));
  }
  return TEAK_OK;
}

void IndexStatistics::install(std::vector<Density> densities, uint64_t rows, uint64_t written_before, bool store,
                              bool durable) {
  std::string bytes;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    densities_.swap(densities);
    rows_ = rows;
    written_before_ = written_before;
    has_statistics_ = true;
    is_unpublished_ = true;
    if (store && table_id_ != 0) bytes = encode();
  }
  if (!bytes.empty()) statistics_store::save(table_id_, bytes, durable);
}

void IndexStatistics::publish(const TABLE *table) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (!has_statistics_) return;
  write_into(table);
  is_unpublished_ = false;
}

/* Whether the values may stand for the whole table: a partition must not have fewer rows than others on average. */
bool IndexStatistics::is_typical(const TABLE *table) const {
  if (table->part_info == nullptr) return true;
  return rows_ * table->part_info->get_tot_partitions() >= table->file->stats.records;
}

/* All TABLEs of the TABLE_SHARE share the server's statistics. */
void IndexStatistics::write_into(const TABLE *table) const {
  for (size_t number = 0; number < indexes_.size(); number++) {
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
