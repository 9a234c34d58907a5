/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What the server lets us decide on the entry of a key, before its row is fetched: conditions on the key's columns, and
   filters on the row's position. And reads of many ranges, which the server's own implementation sorts by key or by
   position before it asks for them. */

#include "handler/ha_teak.h"

namespace teak {

/* As in InnoDB a key with a virtual column is left to the server; so is a condition on a column that an entry does not give
   back (the server takes every column of the primary key for readable from every key). */
Item *ha_teak::idx_cond_push(uint key, Item *condition) {
  if (share_->key(key).has_virtual_column) return condition;
  List<Item_field> columns;
  condition->walk(&Item::collect_item_field_processor, false, &columns);
  List_iterator_fast<Item_field> each(columns);
  while (const Item_field *column = each++)
    if (column->field->table == table && !share_->key(key).decodable_columns.has(column->field->field_index))
      return condition;
  pushed_idx_cond = condition;
  pushed_idx_cond_keyno = key;
  return nullptr;
}

bool ha_teak::rowid_filter_push(Rowid_filter *filter) {
  pushed_rowid_filter = filter;
  return false;
}

/* Of the columns in the table's first record. 0 or REJECTED. The end of the range is the cursor's. */
int ha_teak::check_pushed_condition() {
  increment_statistics(&SSV::ha_icp_attempts);
  if (!pushed_idx_cond->val_bool()) return REJECTED;
  increment_statistics(&SSV::ha_icp_match);
  return 0;
}

int ha_teak::check_pushed_filter(teak_slice primary) {
  store_position(primary, ref);
  return pushed_rowid_filter->check(reinterpret_cast<char *>(ref)) ? 0 : REJECTED;
}

/* ---- many ranges ---- */

/* ha_partition gives all partitions one and the same buffer when the key that it asked about last needs none, whichever key is
   read then: they would overwrite each other's positions and rows would be missing. So partitions read range by range. */
uint ha_teak::order_of_ranges() const { return table->part_info != nullptr ? HA_MRR_USE_DEFAULT_IMPL : 0; }

int ha_teak::multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint mode,
                                   HANDLER_BUFFER *buffer) {
  return multi_range_.dsmrr_init(this, ranges, parameter, count, mode, buffer);
}

int ha_teak::multi_range_read_next(range_id_t *range) { return multi_range_.dsmrr_next(range); }

ha_rows ha_teak::multi_range_read_info_const(uint key, RANGE_SEQ_IF *ranges, void *parameter, uint count,
                                             uint *buffer_bytes, uint *mode, Cost_estimate *cost) {
  multi_range_.init(this, table);
  settle_locks();
  // Rows are locked as they are met: their order is not ours to change.
  if (locking()) *mode |= HA_MRR_USE_DEFAULT_IMPL;
  *mode |= order_of_ranges();
  return multi_range_.dsmrr_info_const(key, ranges, parameter, count, buffer_bytes, mode, cost);
}

ha_rows ha_teak::multi_range_read_info(uint key, uint ranges, uint keys, uint key_parts, uint *buffer_bytes, uint *mode,
                                       Cost_estimate *cost) {
  multi_range_.init(this, table);
  *mode |= order_of_ranges();
  return multi_range_.dsmrr_info(key, ranges, keys, key_parts, buffer_bytes, mode, cost);
}

int ha_teak::multi_range_read_explain_info(uint mode, char *text, size_t bytes) {
  return multi_range_.dsmrr_explain_info(mode, text, bytes);
}

}  // namespace teak
