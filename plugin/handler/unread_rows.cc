/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See unread_rows.h.

   binlog_row_image of the primary determines the columns of an event: all; only those of the primary key (MINIMAL); or all but
   BLOB and TEXT (NOBLOB). The server does not tell the handler which. It sets columns that the event lacks to their defaults, so one
   column with another value, which is neither in the primary key nor a BLOB, shows that only BLOBs may be missing, and a BLOB with
   another value is not missing. */

#include "handler/unread_rows.h"

#include <new>

#include "base/errors.h"
#include "handler/ha_teak.h"
#include "monitor/measurements.h"
#include "monitor/page_counting.h"
#include "monitor/variables.h"

namespace teak {

namespace {

bool has_default(const TABLE *table, const Field *field, const uchar *record) {
  const uchar *defaults = table->s->default_values;
  return field->is_null_in_record(record) == field->is_null_in_record(defaults) &&
         memcmp(field->ptr_in_record(record), field->ptr_in_record(defaults), field->pack_length()) == 0;
}

}  // namespace

bool UnreadRows::has_all_columns(const uchar *record) const {
  const TABLE *table = open_.table();
  const Share &share = *open_.share();
  // Keys that an ALTER TABLE builds may have any columns.
  if (share.building() != nullptr) return false;
  // The binary log of the replica gets the old row.
  const bool is_logged = table->file->row_logging;
  // Otherwise the old row is only needed for entries of secondary keys.
  if (!is_logged && share.indexes() == 1) return true;
  bool has_other_than_key = false;
  for (Field **each = table->field; *each != nullptr; each++) {
    const Field *field = *each;
    const bool is_default = has_default(table, field, record);
    if ((field->flags & BLOB_FLAG) != 0) {
      // Entries of clustering keys are compared with the old row.
      const bool is_needed = is_logged || (field->flags & PART_KEY_FLAG) != 0 || share.has_clustering_key();
      if (is_needed && is_default) return false;
    } else if ((field->flags & PRI_KEY_FLAG) == 0) {
      has_other_than_key = has_other_than_key || !is_default;
    }
  }
  return has_other_than_key;
}

bool UnreadRows::suits(const uchar *record) const {
  const TABLE *table = open_.table();
  return read_free_replication() && open_.thd()->rgi_slave != nullptr && locks_.mode() == TEAK_LOCK_EXCLUSIVE &&
         !open_.share()->hidden_primary() && table->triggers == nullptr && !table->versioned() &&
         table->s->stored_fields == table->s->fields && bitmap_is_set_all(table->write_set) && has_all_columns(record);
}

int UnreadRows::lock(const uchar *record) {
  key_.clear();
  open_.share()->primary().encode_record(record, &key_);
  if (key_.failed()) return open_.out_of_memory();
  const teak_status status = teak_transaction_lock_row(open_.transaction(), open_.share()->table(), slice(key_));
  if (status == TEAK_NOT_FOUND) return HA_ERR_KEY_NOT_FOUND;
  if (status != TEAK_OK) return open_.failure(status);
  read_free_rows.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

/* Called by the applier of a replica. */
int ha_teak::rnd_pos_by_record(uchar *record) try {
  if (!unread_rows_.suits(record)) return handler::rnd_pos_by_record(record);
  const PageCounting counting(handler_stats);
  return unread_rows_.lock(record);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

}  // namespace teak
