/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* UnreadRows: rows that a replica changes without reading them (teak_read_free_replication). An event of the binary log has
   the row before the change. If it has all columns, only the lock of the row is missing. */

#ifndef TEAK_HANDLER_UNREAD_ROWS_H
#define TEAK_HANDLER_UNREAD_ROWS_H

#include "base/server_version.h"

#include "format/buffer.h"
#include "handler/lock_policy.h"
#include "table/open_table.h"

namespace teak {

class UnreadRows {
 public:
  UnreadRows(OpenTable &open, const LockPolicy &locks) : open_(open), locks_(locks) {}
  UnreadRows(const UnreadRows &) = delete;
  UnreadRows &operator=(const UnreadRows &) = delete;

  /* Whether the server applies an event to the row of the record, the record has all columns that this needs, and the new
     row will not need others. */
  bool suits(const uchar *record) const;
  /* Locks the row of the record. HA_ERR_KEY_NOT_FOUND: it does not exist. */
  int lock(const uchar *record);

 private:
  bool has_all_columns(const uchar *record) const;

  OpenTable &open_;
  const LockPolicy &locks_;
  ByteBuffer key_;
};

}  // namespace teak

#endif
