/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* PrimaryRange: a range of the primary key with exactly the rows that satisfy a condition.

   The condition must be a conjunction of comparisons of columns of the primary key with constants: equality for the first
   columns of the key, and bounds (<, <=, >, >=, BETWEEN) for at most one column after them. The columns are
   integers, DATE or DATETIME, and the constants must be values that the columns can have: then a comparison of values is a
   comparison of encoded keys. */

#ifndef TEAK_HANDLER_PRIMARY_RANGE_H
#define TEAK_HANDLER_PRIMARY_RANGE_H

#include "base/server_version.h"

#include "base/core.h"
#include "format/buffer.h"
#include "session/cursor.h"
#include "table/share.h"

namespace teak {

class PrimaryRange {
 public:
  PrimaryRange() = default;
  PrimaryRange(const PrimaryRange &) = delete;
  PrimaryRange &operator=(const PrimaryRange &) = delete;

  /* Returns false if there is no such range. Overwrites the record table->record[0]. */
  bool set(const Share &share, TABLE *table, const Item *condition);
  void clear() { is_set_ = false; }
  bool is_set() const { return is_set_; }
  teak_slice lower() const { return lower_; }  // inclusive
  teak_slice upper() const { return upper_; }  // exclusive

 private:
  bool is_set_ = false;
  teak_slice lower_ = UNBOUNDED, upper_ = UNBOUNDED;
  ByteBuffer lower_bytes_, upper_bytes_;
};

}  // namespace teak

#endif
