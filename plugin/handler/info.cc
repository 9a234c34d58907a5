/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Figures: for the optimiser, estimates from counts in index blocks and memory; for INFORMATION_SCHEMA, real sizes. No
   data page is read for them, but for rec_per_key (statistics/index_statistics.cc). */

#include <cmath>

#include "handler/ha_teak.h"

namespace teak {

int ha_teak::info(uint what) {
  if (what & HA_STATUS_ERRKEY) errkey = session_ == nullptr ? MAX_KEY : session_->duplicate_key();
  if (what & HA_STATUS_VARIABLE) {
    teak_index_statistics figures{};
    figures.struct_size = sizeof(figures);
    teak_status status = teak_index_get_statistics(share_->table(), 0, &figures);
    if (status != TEAK_OK) return failure(status);
    stats.records = figures.entries;
    stats.deleted = figures.tombstones;
    // A small table may be in memory and the log alone.
    stats.data_file_length = figures.disk_bytes + figures.memtable_bytes;
    raw_bytes_ = figures.raw_bytes + figures.memtable_bytes;
    // The count is an estimate: only a table scan may find that there is nothing.
    if (stats.records == 0 && !(what & (HA_STATUS_TIME | HA_STATUS_OPEN))) stats.records = 1;
    stats.mean_rec_length =
        stats.records == 0 ? 0 : static_cast<ulong>(std::max(figures.disk_bytes, raw_bytes_) / stats.records);
    if (what & (HA_STATUS_TIME | HA_STATUS_VARIABLE_EXTRA))
      if (int error = sum_of_indexes()) return error;
  }
  // Not for lists of tables: sampling reads pages. Without figures the optimiser guesses, so a failure fails nothing.
  if ((what & (HA_STATUS_CONST | HA_STATUS_VARIABLE)) && !(what & (HA_STATUS_OPEN | HA_STATUS_VARIABLE_EXTRA)))
    share_->statistics().refresh(ha_thd(), table, stats.records, false);
  if (what & HA_STATUS_CONST) {
    share_->statistics().publish(table);
    stats.block_size = COST_PAGE_BYTES;
    stats.max_data_file_length = 0;
    stats.create_time = 0;
    char frm[FN_REFLEN];
    struct stat about;
    // Not by the handler's own name: a partition has no definition of its own.
    fn_format(frm, table_share->normalized_path.str, "", reg_ext, MY_UNPACK_FILENAME | MY_APPEND_EXT);
    if (::stat(frm, &about) == 0) stats.create_time = about.st_ctime;
  }
  if (what & HA_STATUS_TIME) stats.update_time = share_->written_at();
  if (what & HA_STATUS_AUTO) {
    ulonglong next = 0;
    if (table->found_next_number_field != nullptr && table_share->next_number_keypart == 0) {
      teak_status status = share_->next_auto_increment(&next);
      if (status != TEAK_OK) return failure(status);
    }
    stats.auto_increment_value = next;
  }
  return 0;
}

/* What only INFORMATION_SCHEMA and SHOW ask for. */
int ha_teak::sum_of_indexes() {
  stats.index_file_length = 0;
  stats.delete_length = 0;
  for (uint32_t index = 0; index < share_->indexes(); index++) {
    uint64_t free_bytes;
    teak_status status = teak_index_get_free_bytes(share_->table(), index, &free_bytes);
    if (status != TEAK_OK) return failure(status);
    stats.delete_length += free_bytes;
    if (index == 0) continue;  // the rows themselves
    teak_index_statistics figures{};
    figures.struct_size = sizeof(figures);
    status = teak_index_get_statistics(share_->table(), index, &figures);
    if (status != TEAK_OK) return failure(status);
    stats.index_file_length += figures.disk_bytes + figures.memtable_bytes;
  }
  return 0;
}

ha_rows ha_teak::records_in_range(uint key, const key_range *least, const key_range *greatest, page_range *) {
  ByteBuffer from, to;
  teak_slice lower = least == nullptr ? UNBOUNDED : encode_bound(key, *least, true, &from);
  teak_slice upper = greatest == nullptr ? UNBOUNDED : encode_bound(key, *greatest, false, &to);
  uint64_t entries = 0;
  teak_status status = teak_index_estimate_entries(share_->table(), share_->index_of(key), lower, upper, &entries);
  if (status != TEAK_OK) return HA_POS_ERROR;
  return entries == 0 ? 1 : entries;  // 0 would be taken for a proof
}

ha_rows ha_teak::estimate_rows_upper_bound() {
  // Twice what is known, and what may have come since.
  return stats.records * 2 + EXTRA_RECORDS;
}

double ha_teak::pages() const { return static_cast<double>(raw_bytes_) / COST_PAGE_BYTES; }

/* In pages of what a scan has to look at, compressed or not: decompressing is not free either. */
double ha_teak::scan_time() { return std::max(1.0, std::ceil(pages())); }

double ha_teak::read_time(uint index, uint ranges, ha_rows rows) {
  if (index != table_share->primary_key) return handler::read_time(index, ranges, rows);
  double of_all = stats.records == 0 ? 1.0 : static_cast<double>(rows) / static_cast<double>(stats.records);
  return ranges + (of_all < 1.0 ? of_all : 1.0) * pages();
}

}  // namespace teak
