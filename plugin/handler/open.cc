/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Opening and closing a table. */

#include "base/errors.h"
#include "base/table_name.h"
#include "handler/ha_teak.h"

namespace teak {

int ha_teak::open(const char *name, int, uint) {
  name_ = name;
  lock_shared_ha_data();
  share_ = static_cast<Share *>(get_ha_share_ptr());
  int error = 0;
  if (share_ == nullptr) {
    error = Share::open(ha_thd(), name, table, &share_, &error_text_);
    if (error == 0) set_ha_share_ptr(share_);
  }
  unlock_shared_ha_data();
  if (error != 0) {
    share_ = nullptr;
    return error;
  }

  // A temporary table may be made, and filled, in a transaction that has its snapshot already.
  if (NameInEngine(name).is_temporary()) {
    teak_status status = teak_table_serve_older_snapshots(share_->table());
    if (status != TEAK_OK) return failure(status);
  }

  new_.resize(share_->indexes());
  old_.resize(share_->indexes());
  entries_.resize(share_->indexes());
  changes_.resize(share_->indexes());
  ref_length = static_cast<uint>(share_->hidden_primary() ? POSITION_OF_ROW_ID_BYTES
                                                          : POSITION_LENGTH_BYTES + share_->primary().length_max());
  // With keyread the server computes no virtual columns, so such a key must not seem to cover any column.
  for (uint number = 0; number < share_->keys(); number++)
    if (share_->key(number).loses_virtual_column)
      for (Field **field = table->field; *field != nullptr; field++) {
        (*field)->part_of_key.clear_bit(number);
        (*field)->part_of_key_not_clustered.clear_bit(number);
      }
  // An UPDATE of the key that a scan follows must collect its rows first.
  key_used_on_scan = share_->primary_key();
  stats.block_size = COST_PAGE_BYTES;
  // What sorting a row's position takes in a multi-range read: the position and the range's number.
  stats.mrr_length_per_rec = ref_length + sizeof(range_id_t);
  info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
  // Keys of an empty table have no values, which is known without a sample.
  for (uint number = 0; stats.records == 0 && number < share_->keys(); number++) {
    const KEY &key = table->key_info[number];
    for (uint part = 0; key.rec_per_key != nullptr && part < key.ext_key_parts; part++)
      if (key.rec_per_key[part] == 0) key.rec_per_key[part] = 1;
  }
  return 0;
}

int ha_teak::close() {
  reset();
  share_ = nullptr;  // the server owns it
  session_ = nullptr;
  own_session_.reset();
  return 0;
}

}  // namespace teak
