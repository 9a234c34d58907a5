/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* LoadEncoder: passes the rows of a load to the engine, which calls it on another thread to encode them, while the thread of
   the statement reads the next ones. That thread only copies the columns' bytes into a batch. */

#ifndef TEAK_HANDLER_LOAD_ENCODER_H
#define TEAK_HANDLER_LOAD_ENCODER_H

#include <memory>
#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "format/record_packer.h"
#include "handler/row_keys.h"
#include "table/share.h"

namespace teak {

class LoadEncoder {
 public:
  /* `tables`: how many tables the statement loads at the same time. */
  LoadEncoder(const Share &share, const TABLE &table, uint32_t tables);
  LoadEncoder(const LoadEncoder &) = delete;
  LoadEncoder &operator=(const LoadEncoder &) = delete;

  /* Begins to encode the rows of the load. The load must end before this object is deleted. */
  teak_status start(teak_load *load) { return teak_load_encode(load, encode, this); }

  /* These are called by the thread of the statement. */
  /* Adds a row to the batch. `row_id` is used in a table without primary key. Returns its bytes; 0: out of memory. */
  size_t add(teak_slice row_id, const uchar *record);
  bool is_full() const { return batch_.size() >= batch_bytes_; }
  /* Passes the batch on, unless it is empty. */
  teak_status pass(teak_load *load);

 private:
  static teak_status encode(void *encoder, teak_slice batch, teak_load_rows *rows);
  teak_status encode(teak_slice batch, teak_load_rows *rows);

  const Share &share_;
  const RecordPacker packer_;
  const size_t batch_bytes_;
  const size_t row_id_bytes_;

  // Of the thread of the statement.
  ByteBuffer batch_;
  uint64_t batch_rows_ = 0;

  // Of the thread that encodes.
  const std::unique_ptr<uchar[]> record_;
  ByteBuffer row_;
  RowKeys keys_;
  std::vector<teak_row_entry> entries_;
};

}  // namespace teak

#endif
