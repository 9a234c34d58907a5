/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See costs.h. */

#include "handler/costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "handler/cost_constants.h"
#include "table/definition.h"

namespace teak {

namespace {

/* The part of the page cache that one index is assumed to get. */
constexpr double CACHE_SHARE = 0.5;

double pages(double bytes) { return bytes / COST_PAGE_BYTES; }

double units(double nanoseconds) { return nanoseconds / cost::UNIT_NS; }

// The formulas of 10.11 for rowid filters assume that a row costs at least 1, and take less for a table in memory (HEAP).
constexpr double LOOKUP = std::max(1.0, cost::LOOKUP_NS / cost::UNIT_NS);

constexpr double milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

/* A miss in a page of mean size. */
constexpr double MISS_UNIT_NS = cost::MISS_NS + cost::PAGE_BYTES / 1024 * cost::MISS_NS_PER_KIB;

}  // namespace

const ReadTimes READ_TIMES = {milliseconds(cost::SCAN_NS), milliseconds(cost::LOOKUP_NS),
                              milliseconds(cost::ENTRY_LOOKUP_NS), milliseconds(cost::ENTRY_NS),
                              milliseconds(MISS_UNIT_NS)};

/* Reads the sizes of an index once in each statement. An index whose sizes cannot be read counts as empty: the statement
   will report the error when it reads rows. */
const Costs::Index &Costs::index(uint number) {
  static const Index EMPTY;
  if (indexes_.size() <= number) try {
      indexes_.resize(number + 1);
    } catch (const std::bad_alloc &) {
      return EMPTY;
    }
  Index &index = indexes_[number];
  if (index.statement == statement_) return index;
  index = Index();
  index.statement = statement_;
  teak_index_statistics sizes;
  const Share *share = open_.share();
  if (share == nullptr || share->index_statistics(number, &sizes) != TEAK_OK) return index;
  const double stored = static_cast<double>(sizes.raw_bytes);
  index.bytes = stored + static_cast<double>(sizes.memtable_bytes);
  index.entries = static_cast<double>(sizes.entries);
  if (sizes.page_bytes != 0) index.page_bytes = static_cast<double>(sizes.page_bytes);
  if (stored == 0) return index;
  const double cached = static_cast<double>(sizes.cached_entry_bytes);
  double fits = static_cast<double>(sizes.cache_bytes_limit) * CACHE_SHARE;
  // Pages take less memory if only some of their columns were decoded.
  const double held = static_cast<double>(sizes.cached_bytes);
  if (cached > held && held > 0) fits *= cached / held;
  index.uncached = std::max(0.0, stored - cached) / index.bytes;
  index.missing = std::min(index.uncached, std::max(0.0, stored - fits) / index.bytes);
  return index;
}

const Costs::Index &Costs::of_key(uint key) {
  return index(open_.share() == nullptr ? 0 : open_.share()->index_of(key));
}

/* The time of the misses of `lookups` at random places. */
double Costs::miss_ns(const Index &index, double lookups) {
  const double pages = std::max(1.0, index.bytes / index.page_bytes);
  // The expected number of pages that are read at all (Cardenas).
  const double touched = std::min(lookups, pages * -std::expm1(-lookups / pages));
  const double missed = touched * index.uncached + (lookups - touched) * index.missing;
  return missed * (cost::MISS_NS + index.page_bytes / 1024 * cost::MISS_NS_PER_KIB);
}

/* The time in which a scan of a part of an index reads what is not in memory. */
double Costs::scan_miss_ns(const Index &index, double part) {
  return part * index.uncached * index.bytes / 1024 * cost::SCAN_MISS_NS_PER_KIB;
}

const key_map *Costs::keys_to_scan() {
  if (rows().missing == 0) return &key_map_full;
  clustered_.clear_all();
  for (uint key = 0; key < open_.table_share()->keys; key++)
    if (has_rows(key)) clustered_.set_bit(key);
  return &clustered_;
}

bool Costs::has_rows(uint key) const {
  const TABLE_SHARE *share = open_.table_share();
  return key == share->primary_key || is_clustering(share, key);
}

/* The part of an index's entries that `rows` are. */
double Costs::part_of(const Index &index, ha_rows rows) {
  return index.entries == 0 ? 1.0 : std::min(1.0, rows2double(rows) / index.entries);
}

/* ---- for 11.8 ---- */

double Costs::scan_misses() { return scan_miss_ns(rows(), 1.0) / MISS_UNIT_NS; }

double Costs::key_misses(uint key, ulong ranges, ha_rows rows) {
  const Index &index = of_key(key);
  double time = scan_miss_ns(index, part_of(index, rows));
  // A single range may be one of many, in a join.
  if (has_rows(key) && ranges > 1) time += miss_ns(index, static_cast<double>(ranges));
  return time / MISS_UNIT_NS;
}

double Costs::range_row_misses(ha_rows rows) { return miss_ns(this->rows(), rows2double(rows)) / MISS_UNIT_NS; }

/* The misses of all pages that are not in memory, each read once. */
double Costs::misses_max(const Index &index) {
  if (index.missing > 0) return std::numeric_limits<double>::infinity();
  const double pages = std::max(1.0, index.bytes / index.page_bytes);
  const double looked_up = pages * index.uncached * (cost::MISS_NS + index.page_bytes / 1024 * cost::MISS_NS_PER_KIB);
  return std::max(looked_up, scan_miss_ns(index, 1.0)) / MISS_UNIT_NS;
}

/* ---- for 10.11 ---- */

double Costs::scan() {
  const Index &index = rows();
  return std::max(1.0, std::ceil(pages(index.bytes))) + units(scan_miss_ns(index, 1.0));
}

double Costs::lookup() { return LOOKUP; }

double Costs::read(uint key, uint ranges, ha_rows rows) {
  const double lookups = rows2double(rows);
  if (!has_rows(key)) {
    if (ranges != 0) return (ranges + lookups) * LOOKUP;
    // Rows of a range.
    return lookups * LOOKUP + units(miss_ns(this->rows(), lookups));
  }
  const Index &index = of_key(key);
  const double part = part_of(index, rows);
  const double read = part * pages(index.bytes) + units(scan_miss_ns(index, part));
  // A single range may be one of many, in a join.
  const double first = ranges <= 1 ? 0 : units(miss_ns(index, ranges));
  return ranges * LOOKUP + read + first;
}

double Costs::entries_not_in_memory(uint key, ha_rows rows) {
  const Index &index = of_key(key);
  return units(scan_miss_ns(index, part_of(index, rows)));
}

}  // namespace teak
