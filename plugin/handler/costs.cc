/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See costs.h. */

#include "handler/costs.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "handler/cost_constants.h"
#include "table/definition.h"

namespace teak {

namespace {

/* The part of the page cache that one index is assumed to get. */
constexpr double CACHE_SHARE = 0.5;

double pages(double bytes) { return bytes / COST_PAGE_BYTES; }

double units(double nanoseconds) { return nanoseconds / cost::UNIT_NS; }

// The server's formulas for rowid filters assume that a row costs at least 1, and take less for a table in memory (HEAP).
constexpr double LOOKUP = std::max(1.0, cost::LOOKUP_NS / cost::UNIT_NS);

}  // namespace

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

/* The cost of the misses of `lookups` at random places. */
double Costs::misses(const Index &index, double lookups) {
  const double pages = std::max(1.0, index.bytes / index.page_bytes);
  // The expected number of pages that are read at all (Cardenas).
  const double touched = std::min(lookups, pages * -std::expm1(-lookups / pages));
  const double missed = touched * index.uncached + (lookups - touched) * index.missing;
  return missed * units(cost::MISS_NS + index.page_bytes / 1024 * cost::MISS_NS_PER_KIB);
}

double Costs::scan() {
  const Index &index = rows();
  const double read = std::max(1.0, std::ceil(pages(index.bytes)));
  return read + units(index.uncached * index.bytes / 1024 * cost::SCAN_MISS_NS_PER_KIB);
}

double Costs::lookup() { return LOOKUP; }

const key_map *Costs::keys_to_scan() {
  if (rows().missing == 0) return &key_map_full;
  clustered_.clear_all();
  for (uint key = 0; key < open_.table_share()->keys; key++)
    if (has_rows(key)) clustered_.set_bit(key);
  return &clustered_;
}

/* Whether the entries of a key contain the rows. */
bool Costs::has_rows(uint key) const {
  const TABLE_SHARE *share = open_.table_share();
  return key == share->primary_key || is_clustering(share, key);
}

double Costs::read(uint key, uint ranges, ha_rows rows) {
  const double lookups = rows2double(rows);
  if (!has_rows(key)) {
    if (ranges != 0) return (ranges + lookups) * LOOKUP;
    // Rows of a range.
    return lookups * LOOKUP + misses(this->rows(), lookups);
  }
  const Index &index = of_key(key);
  const double part = index.entries == 0 ? 1.0 : std::min(1.0, lookups / index.entries);
  const double read =
      part * (pages(index.bytes) + units(index.uncached * index.bytes / 1024 * cost::SCAN_MISS_NS_PER_KIB));
  // A single range may be one of many, in a join.
  const double first = ranges <= 1 ? 0 : misses(index, ranges);
  return ranges * LOOKUP + read + first;
}

double Costs::entries_not_in_memory(uint key, ha_rows rows) {
  const Index &index = of_key(key);
  const double part = index.entries == 0 ? 1.0 : std::min(1.0, rows2double(rows) / index.entries);
  return units(part * index.uncached * index.bytes / 1024 * cost::SCAN_MISS_NS_PER_KIB);
}

}  // namespace teak
