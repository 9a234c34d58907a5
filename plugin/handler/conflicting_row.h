/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ConflictingRow: the row that caused a duplicate-key error. REPLACE and ON DUPLICATE KEY UPDATE read it next, by its
   position or, in a table with partitions, by its key. RowWriter has locked it and has its value, so RowFetcher returns
   it from here, without a look-up. Only the read that directly follows the error does so: each further write or read
   discards the value. */

#ifndef TEAK_HANDLER_CONFLICTING_ROW_H
#define TEAK_HANDLER_CONFLICTING_ROW_H

#include <cstring>

#include "base/core.h"
#include "format/buffer.h"
#include "session/cursor.h"

namespace teak {

class ConflictingRow {
 public:
  ConflictingRow() = default;
  ConflictingRow(const ConflictingRow &) = delete;
  ConflictingRow &operator=(const ConflictingRow &) = delete;

  /* Stores the primary key. False: out of memory. */
  bool set_primary(teak_slice primary) {
    discard_value();
    primary_.clear();
    primary_.append(primary.data, primary.len);
    return !primary_.failed();
  }
  teak_slice primary() const { return slice(primary_); }

  /* Stores the newest version of the row, which the transaction has locked exclusively. */
  void set_locked_value(teak_slice value) {
    value_.clear();
    value_.append(value.data, value.len);
    // Without memory for it, the row is read again.
    has_value_ = !value_.failed();
  }
  void discard_value() { has_value_ = false; }

  /* Returns and discards the row with this primary key, if its value is stored. The bytes are valid until the next
     duplicate-key error. */
  bool take(teak_slice primary, teak_row *row) {
    const bool found =
        has_value_ && primary.len == primary_.size() && memcmp(primary.data, primary_.data(), primary.len) == 0;
    has_value_ = false;
    if (found) *row = {slice(primary_), slice(value_)};
    return found;
  }

  /* Called at the end of each statement. */
  void reset() {
    constexpr size_t KEEP_BYTES = 1 << 20;
    discard_value();
    value_.clear();
    value_.shrink(KEEP_BYTES);
  }

 private:
  ByteBuffer primary_, value_;
  bool has_value_ = false;
};

}  // namespace teak

#endif
