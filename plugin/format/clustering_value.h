/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The values of entries of clustering keys: the row's value, and in a unique entry, whose key does not contain the primary
   key, also the primary key and its length. Specified in docs/design/format.md, 'Keys and rows'. */

#ifndef TEAK_FORMAT_CLUSTERING_VALUE_H
#define TEAK_FORMAT_CLUSTERING_VALUE_H

#include <cstddef>
#include <cstdint>

#include "base/core.h"
#include "format/buffer.h"
#include "format/bytes.h"

namespace teak {

constexpr uint32_t CLUSTERING_LENGTH_BYTES = 4;

/* `primary`: the encoded primary key, if the entry is unique; otherwise empty. */
inline void append_clustering_value(teak_slice row, teak_slice primary, ByteBuffer *value) {
  value->append(row.data, row.len);
  if (primary.len == 0) return;
  value->append(primary.data, primary.len);
  uint8_t *length = value->reserve(CLUSTERING_LENGTH_BYTES);
  if (length == nullptr) return;
  store_little(length, primary.len, CLUSTERING_LENGTH_BYTES);
  value->advance(CLUSTERING_LENGTH_BYTES);
}

/* Splits the value of a unique entry. False: malformed. */
inline bool split_clustering_value(teak_slice value, teak_slice *row, teak_slice *primary) {
  if (value.len < CLUSTERING_LENGTH_BYTES) return false;
  const size_t both = value.len - CLUSTERING_LENGTH_BYTES;
  const size_t length = load_little(value.data + both, CLUSTERING_LENGTH_BYTES);
  if (length == 0 || length > both) return false;
  *row = {value.data, both - length};
  *primary = {value.data + row->len, length};
  return true;
}

}  // namespace teak

#endif
