/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See table_statistics.h. */

#include "handler/table_statistics.h"

#include <sys/stat.h>

#include <algorithm>

#include "handler/key_bounds.h"
#include "session/cursor.h"

namespace teak {

/* Whether the sizes that the optimiser got last are recent enough for another statement. Many short statements in a row need
   not read them again, unless one of them has written. */
bool TableStatistics::use_recent_size() {
  constexpr ulonglong AGE_MAX = 100'000;
  // Statements of a stored procedure all have the start time of the CALL.
  constexpr uint USES_MAX = 64;
  return open_.thd()->start_utime - refreshed_at_ < AGE_MAX && ++uses_ < USES_MAX &&
         changes_ == open_.share()->changes() && !open_.has_written();
}

int TableStatistics::refresh(uint what) {
  ha_statistics &stats = open_.server().stats;
  if (what & HA_STATUS_ERRKEY)
    open_.server().errkey = open_.session() == nullptr ? MAX_KEY : open_.session()->duplicate_key();
  const bool is_for_plan = (what & ~(HA_STATUS_VARIABLE | HA_STATUS_NO_LOCK)) == 0;
  if ((what & HA_STATUS_VARIABLE) && !(is_for_plan && use_recent_size()))
    if (int error = refresh_size(what, is_for_plan)) return error;
  // Not for lists of tables, because sampling reads pages. A failure is not an error: the optimiser then uses its
  // defaults.
  if ((what & (HA_STATUS_CONST | HA_STATUS_VARIABLE)) && !(what & (HA_STATUS_OPEN | HA_STATUS_VARIABLE_EXTRA)))
    open_.share()->statistics().refresh(open_.thd(), open_.table(), stats.records);
  if (what & HA_STATUS_CONST) refresh_constants();
  if (what & HA_STATUS_TIME) stats.update_time = open_.share()->written_at();
  return what & HA_STATUS_AUTO ? refresh_auto_increment() : 0;
}

int TableStatistics::refresh_size(uint what, bool is_for_plan) {
  ha_statistics &stats = open_.server().stats;
  changes_ = open_.share()->changes();
  refreshed_at_ = is_for_plan ? open_.thd()->start_utime : 0;
  uses_ = 0;
  teak_index_statistics index;
  const teak_status status = open_.share()->index_statistics(0, &index);
  if (status != TEAK_OK) return open_.failure(status);
  stats.records = index.entries;
  stats.deleted = index.tombstones;
  // A small table may be only in memory and in the log.
  stats.data_file_length = index.disk_bytes + index.memtable_bytes;
  const uint64_t raw_bytes = index.raw_bytes + index.memtable_bytes;
  // The count is an estimate: only a table scan may conclude that the table is empty.
  if (stats.records == 0 && !(what & (HA_STATUS_TIME | HA_STATUS_OPEN))) stats.records = 1;
  stats.mean_rec_length =
      stats.records == 0 ? 0 : static_cast<ulong>(std::max(index.disk_bytes, raw_bytes) / stats.records);
  return what & (HA_STATUS_TIME | HA_STATUS_VARIABLE_EXTRA) ? refresh_index_sizes() : 0;
}

/* The optimiser does not need the sizes of indexes. */
int TableStatistics::refresh_index_sizes() {
  ha_statistics &stats = open_.server().stats;
  const Share &share = *open_.share();
  stats.index_file_length = 0;
  stats.delete_length = 0;
  for (uint32_t number = 0; number < share.indexes(); number++) {
    uint64_t free_bytes;
    teak_status status = teak_index_get_free_bytes(share.table(), number, &free_bytes);
    if (status != TEAK_OK) return open_.failure(status);
    stats.delete_length += free_bytes;
    if (number == 0) continue;  // the rows themselves
    teak_index_statistics index;
    status = share.index_statistics(number, &index);
    if (status != TEAK_OK) return open_.failure(status);
    stats.index_file_length += index.disk_bytes + index.memtable_bytes;
  }
  return 0;
}

void TableStatistics::refresh_constants() {
  ha_statistics &stats = open_.server().stats;
  open_.share()->statistics().publish(open_.table());
  stats.block_size = COST_PAGE_BYTES;
  stats.max_data_file_length = 0;
  stats.create_time = 0;
  char frm[FN_REFLEN];
  struct stat file;
  // Uses the path of the whole table, because a partition has no .frm file.
  fn_format(frm, open_.table_share()->normalized_path.str, "", reg_ext, MY_UNPACK_FILENAME | MY_APPEND_EXT);
  if (::stat(frm, &file) == 0) stats.create_time = file.st_ctime;
}

int TableStatistics::refresh_auto_increment() {
  ulonglong next = 0;
  if (open_.table()->found_next_number_field != nullptr && open_.table_share()->next_number_keypart == 0) {
    const teak_status status = open_.share()->auto_increment().next(&next);
    if (status != TEAK_OK) return open_.failure(status);
  }
  open_.server().stats.auto_increment_value = next;
  return 0;
}

ha_rows TableStatistics::rows_in_range(uint key, const key_range *min, const key_range *max) const {
  const Share &share = *open_.share();
  ByteBuffer from, to;
  teak_slice lower = UNBOUNDED, upper = UNBOUNDED;
  if (min != nullptr && !encode_bound(share.codec(key), *min, RangeEnd::Lower, &from, &lower)) return HA_POS_ERROR;
  if (max != nullptr && !encode_bound(share.codec(key), *max, RangeEnd::Upper, &to, &upper)) return HA_POS_ERROR;
  uint64_t entries = 0;
  teak_table *table = share.table();
  const uint32_t index = share.index_of(key);
  const teak_status status = is_equality(min, max, share.key(key).all_parts)
                                 ? teak_index_estimate_prefix(table, index, lower, &entries)
                                 : teak_index_estimate_entries(table, index, lower, upper, &entries);
  if (status != TEAK_OK) return HA_POS_ERROR;
  return entries == 0 ? 1 : entries;  // for the server, 0 would mean that the range is certainly empty
}

}  // namespace teak
