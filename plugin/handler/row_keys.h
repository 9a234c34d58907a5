/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowKeys: the encoded keys of one row in all indexes of its table, and the values of its entries in secondary indexes.

   The key of an entry that need not be unique, or that cannot conflict because a column is NULL, ends with the primary
   key (see KeyCodec::append_primary()). The value of a unique entry starts with the primary key. The value of an entry of a
   clustering key contains the row, see format/clustering_value.h. */

#ifndef TEAK_HANDLER_ROW_KEYS_H
#define TEAK_HANDLER_ROW_KEYS_H

#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "format/entry_codec.h"
#include "session/cursor.h"
#include "table/share.h"

namespace teak {

class RowKeys {
 public:
  RowKeys() = default;
  RowKeys(const RowKeys &) = delete;
  RowKeys &operator=(const RowKeys &) = delete;

  /* Reserves space for this number of indexes. Invalidates slices of keys that were encoded before. */
  void reserve_indexes(size_t indexes);
  /* Frees the memory of keys and values with more than `bytes_max`. Invalidates slices. */
  void shrink(size_t bytes_max);

  /* Encodes the keys of the table's own indexes. `row_id` is used in a table without primary key. `row`: the encoded row,
     for the values in clustering keys; may be empty if no value is needed. False: out of memory. */
  bool encode(const Share &share, teak_slice row_id, const uchar *record, teak_slice row);
  /* Encodes, after encode(), the entries of the indexes that ALTER TABLE builds. Computes their virtual columns in the
     record, which is one of the table's. False: out of memory. */
  bool encode_building(const Share &share, const Share::Building &building, TABLE *table, const uchar *record,
                       teak_slice row);

  teak_slice key(size_t index) const { return slice(keys_[index]); }
  teak_slice primary() const { return key(0); }
  /* Whether the entry must be the only one with its key. Not of indexes that are built. */
  bool is_unique(size_t index) const { return unique_[index] != 0; }
  /* An entry of an index that is built: its value, and whether the engine must check that it is the only one. */
  teak_slice building_value(size_t index) const {
    return values_[index].empty() ? teak_slice{keys_[0].data(), 0} : slice(values_[index]);
  }
  bool is_checked(size_t index) const { return checked_[index] != 0; }
  /* The value of an entry in a secondary index. */
  teak_slice value(size_t index) const;
  /* Whether an entry found in a secondary index has the expected value. */
  bool is_value(size_t index, teak_slice found) const;
  /* Whether both rows have the same entry in a secondary index. They must have the same primary key. */
  bool has_same_entry(size_t index, const RowKeys &other) const;

 private:
  void encode_key(const EntryForm &form, const EntryRow &row, size_t index) {
    unique_[index] = encode_entry(form, row, &keys_[index], &values_[index]);
  }
  bool has_failed(size_t index) const { return keys_[index].failed() || values_[index].failed(); }

  // By index of the engine.
  std::vector<ByteBuffer> keys_;
  // Of keys with originals: the primary key (only in a unique entry), the originals. Of clustering keys and indexes that
  // are built: the value.
  std::vector<ByteBuffer> values_;
  std::vector<uint8_t> unique_, checked_;
};

inline bool same_bytes(teak_slice left, teak_slice right) {
  return left.len == right.len && memcmp(left.data, right.data, left.len) == 0;
}

}  // namespace teak

#endif
