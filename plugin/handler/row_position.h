/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowPositions: the positions by which the server finds rows again (handler::ref). A position is the length of the
   row's encoded primary key, the key, and zeros as padding; in a table without primary key, the low bytes of the hidden
   row id. */

#ifndef TEAK_HANDLER_ROW_POSITION_H
#define TEAK_HANDLER_ROW_POSITION_H

#include "base/server_version.h"

#include "base/core.h"
#include "format/buffer.h"
#include "format/key_codec.h"
#include "table/open_table.h"

namespace teak {

class RowPositions {
 public:
  explicit RowPositions(const OpenTable &open) : open_(open) {}
  RowPositions(const RowPositions &) = delete;
  RowPositions &operator=(const RowPositions &) = delete;

  /* Bytes of every position (handler::ref_length). */
  uint length() const;
  /* Whether a primary key fits into a position. */
  bool fits(teak_slice primary) const;

  void store(teak_slice primary, uchar *position) const;
  /* The position of the row in a record. */
  void store_of_record(const uchar *record, uchar *position);

  /* The primary key of a position. `row_id` is memory for a hidden row id. */
  teak_slice primary_of(const uchar *position, uint8_t (&row_id)[KeyCodec::HIDDEN_ROW_ID_BYTES]) const;
  /* Orders positions by primary key: < 0, 0, > 0. */
  int compare(const uchar *left, const uchar *right) const;

 private:
  static constexpr size_t LENGTH_BYTES = 2;  // in front of a primary key
  static constexpr size_t ROW_ID_BYTES = OpenTable::ROW_ID_BITS_MAX / 8;

  const OpenTable &open_;
  ByteBuffer key_;
};

}  // namespace teak

#endif
