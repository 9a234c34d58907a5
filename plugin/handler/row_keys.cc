/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_keys.h. */

#include "handler/row_keys.h"

namespace teak {

void RowKeys::reserve_indexes(size_t indexes) {
  if (keys_.size() >= indexes) return;
  keys_.resize(indexes);
  values_.resize(indexes);
  unique_.resize(indexes);
}

bool RowKeys::encode(const Share &share, teak_slice row_id, const uchar *record) {
  ByteBuffer &primary = keys_[0];
  primary.clear();
  // The server writes either a new row or the row that it read last, so `row_id` is the row's id.
  if (share.hidden_primary())
    primary.append(row_id.data, row_id.len);
  else
    share.primary().encode_record(record, &primary);
  unique_[0] = !share.hidden_primary();
  bool encoded = !primary.failed();
  for (uint number = 0; number < share.keys(); number++)
    if (number != share.primary_key()) encoded &= encode_secondary(share, number, record);
  return encoded;
}

bool RowKeys::encode_secondary(const Share &share, uint number, const uchar *record) {
  const Share::Key &definition = share.key(number);
  const uint32_t index = share.index_of(number);
  const ByteBuffer &primary = keys_[0];
  ByteBuffer &key = keys_[index];
  key.clear();
  definition.codec->encode_record(record, &key);
  const bool unique = definition.unique && !(definition.nullable && definition.codec->has_null(record));
  if (!unique) definition.codec->append_primary(primary.data(), primary.size(), &key);
  unique_[index] = unique;
  if (definition.originals == nullptr) return !key.failed();
  ByteBuffer &value = values_[index];
  value.clear();
  if (unique) value.append(primary.data(), primary.size());
  definition.originals->encode(record, &value);
  return !key.failed() && !value.failed();
}

bool RowKeys::encode_building(const Share &share, const Share::Building &building, const uchar *record) {
  const size_t own = share.indexes(), all = own + building.codecs.size();
  const ByteBuffer &primary = keys_[0];
  bool failed = false;
  for (size_t i = own; i < all; i++) {
    ByteBuffer &key = keys_[i];
    key.clear();
    const KeyCodec &codec = *building.codecs[i - own];
    codec.encode_record(record, &key);
    codec.append_primary(primary.data(), primary.size(), &key);
    unique_[i] = false;
    ByteBuffer &value = values_[i];
    value.clear();
    if (building.originals[i - own] != nullptr) building.originals[i - own]->encode(record, &value);
    failed |= key.failed() || value.failed();
  }
  return !failed;
}

teak_slice RowKeys::value(size_t index) const {
  if (!values_[index].empty()) return slice(values_[index]);
  return is_unique(index) ? primary() : teak_slice{keys_[0].data(), 0};
}

bool RowKeys::is_value(size_t index, teak_slice found) const { return same_bytes(found, value(index)); }

bool RowKeys::has_same_entry(size_t index, const RowKeys &other) const {
  return same_bytes(key(index), other.key(index)) && same_bytes(slice(values_[index]), slice(other.values_[index]));
}

}  // namespace teak
