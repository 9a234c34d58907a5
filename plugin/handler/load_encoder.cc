/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See load_encoder.h. */

#include "handler/load_encoder.h"

#include <algorithm>

namespace teak {

namespace {

/* Size of a batch: at most, and at least if many tables are loaded; and of those of all tables together. */
constexpr size_t BATCH_BYTES_MAX = 256 << 10, BATCH_BYTES_MIN = 4 << 10, BATCHES_BYTES = 2 << 20;
/* Memory of a batch or a row that is kept for the next one. */
constexpr size_t KEEP_BYTES = 512 << 10;

size_t batch_bytes(uint32_t tables) {
  return std::clamp(BATCHES_BYTES / std::max<size_t>(tables, 1), BATCH_BYTES_MIN, BATCH_BYTES_MAX);
}

}  // namespace

LoadEncoder::LoadEncoder(const Share &share, const TABLE &table, uint32_t tables)
    : share_(share), packer_(table), batch_bytes_(batch_bytes(tables)),
      row_id_bytes_(share.hidden_primary() ? KeyCodec::HIDDEN_ROW_ID_BYTES : 0),
      record_(new uchar[packer_.record_bytes()]()), entries_(share.indexes()) {
  keys_.reserve_indexes(share.indexes());
}

size_t LoadEncoder::add(teak_slice row_id, const uchar *record) {
  const size_t before = batch_.size();
  batch_.append(row_id.data, row_id_bytes_);
  packer_.pack(record, &batch_);
  batch_rows_++;
  return batch_.failed() ? 0 : batch_.size() - before;
}

teak_status LoadEncoder::pass(teak_load *load) {
  if (batch_rows_ == 0) return TEAK_OK;
  const teak_status status = teak_load_pass(load, slice(batch_), batch_rows_);
  batch_.clear();
  batch_.shrink(KEEP_BYTES);
  batch_rows_ = 0;
  return status;
}

teak_status LoadEncoder::encode(void *encoder, teak_slice batch, teak_load_rows *rows) {
  return static_cast<LoadEncoder *>(encoder)->encode(batch, rows);
}

teak_status LoadEncoder::encode(teak_slice batch, teak_load_rows *rows) {
  const uint8_t *at = batch.data, *const end = batch.data + batch.len;
  while (at != end) {
    if (static_cast<size_t>(end - at) < row_id_bytes_) return TEAK_INTERNAL;
    const teak_slice row_id = {at, row_id_bytes_};
    at = packer_.unpack(at + row_id_bytes_, end, record_.get());
    if (at == nullptr) return TEAK_INTERNAL;
    row_.clear();
    share_.rows().encode(record_.get(), &row_);
    if (!keys_.encode(share_, row_id, record_.get(), slice(row_)) || row_.failed()) return TEAK_OUT_OF_MEMORY;
    for (uint32_t index = 0; index < entries_.size(); index++)
      entries_[index] = {index, !keys_.is_unique(index), keys_.key(index),
                         index == 0 ? slice(row_) : keys_.value(index)};
    const teak_status status = teak_load_rows_add(rows, entries_.data(), entries_.size());
    if (status != TEAK_OK) return status;
  }
  row_.clear();
  row_.shrink(KEEP_BYTES);
  keys_.shrink(KEEP_BYTES);
  return TEAK_OK;
}

}  // namespace teak
