/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Multi-range reads: the server's implementation, or one range after the other with prefetched rows. */

#include "handler/ha_teak.h"

#include "table/definition.h"

namespace teak {

/* ha_partition passes the same buffer to all partitions if the last key for which it requested a buffer size needs
   none, even if the multi-range read uses another key. The partitions would overwrite each other's positions, and rows
   would be missing. So partitions read one range at a time. Rows in a clustering key are not read by their positions. */
uint ha_teak::multi_range_mode(uint key) const {
  const bool has_rows = is_clustering(table->s, key);
  return table->part_info != nullptr || has_rows ? HA_MRR_USE_DEFAULT_IMPL : 0;
}

int ha_teak::multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint mode,
                                   HANDLER_BUFFER *buffer) {
  // The ranges of other reads may come from a join buffer or a partition, which are read once.
  if ((mode & HA_MRR_USE_DEFAULT_IMPL) && table->part_info == nullptr)
    prefetcher_.begin_lookups(active_index, *ranges, parameter, count, mode);
  return multi_range_.dsmrr_init(this, ranges, parameter, count, mode, buffer);
}

int ha_teak::multi_range_read_next(range_id_t *range) {
  if (!prefetcher_.has_lookups()) return multi_range_.dsmrr_next(range);
  prefetcher_.before_lookup();
  const PrefetchWindow::Fetch fetch(prefetcher_.window());
  return multi_range_.dsmrr_next(range);
}

ha_rows ha_teak::estimate_ranges(const Ranges &ranges, uint *buffer_bytes, uint *mode, Cost_estimate *cost) {
  multi_range_.init(this, table);
  locks_.settle();
  // A locking read must lock rows in index order, so this disables the multi-range read that sorts by rowid.
  if (locks_.locking()) *mode |= HA_MRR_USE_DEFAULT_IMPL;
  *mode |= multi_range_mode(ranges.key);
  return server_estimate(&multi_range_, ranges, buffer_bytes, mode, cost);
}

ha_rows ha_teak::multi_range_read_info(uint key, uint ranges, uint keys, uint key_parts, uint *buffer_bytes, uint *mode,
                                       Cost_estimate *cost) {
  multi_range_.init(this, table);
  *mode |= multi_range_mode(key);
  return multi_range_.dsmrr_info(key, ranges, keys, key_parts, buffer_bytes, mode, cost);
}

int ha_teak::multi_range_read_explain_info(uint mode, char *text, size_t bytes) {
  return multi_range_.dsmrr_explain_info(mode, text, bytes);
}

}  // namespace teak
