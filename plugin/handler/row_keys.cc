/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_keys.h. */

#include "handler/row_keys.h"

#include "table/virtual_columns.h"

namespace teak {

void RowKeys::reserve_indexes(size_t indexes) {
  if (keys_.size() >= indexes) return;
  keys_.resize(indexes);
  values_.resize(indexes);
  unique_.resize(indexes);
  checked_.resize(indexes);
}

void RowKeys::shrink(size_t bytes_max) {
  for (auto *buffers : {&keys_, &values_})
    for (ByteBuffer &buffer : *buffers) {
      buffer.clear();
      buffer.shrink(bytes_max);
    }
}

bool RowKeys::encode(const Share &share, teak_slice row_id, const uchar *record, teak_slice row) {
  ByteBuffer &primary = keys_[0];
  primary.clear();
  // The server writes either a new row or the row that it read last, so `row_id` is the row's id.
  if (share.hidden_primary())
    primary.append(row_id.data, row_id.len);
  else
    share.primary().encode_record(record, &primary);
  unique_[0] = !share.hidden_primary();
  bool failed = primary.failed();
  for (uint number = 0; number < share.keys(); number++) {
    if (number == share.primary_key()) continue;
    const Share::Key &key = share.key(number);
    const uint32_t index = share.index_of(number);
    encode_key({*key.codec, key.originals.get(), key.clustering, key.unique, key.nullable},
               {record, slice(primary), row}, index);
    failed |= has_failed(index);
  }
  return !failed;
}

bool RowKeys::encode_building(const Share &share, const Share::Building &building, TABLE *table, const uchar *record,
                              teak_slice row) {
  size_t index = share.indexes();
  const ByteBuffer *primary = &keys_[0];
  bool failed = false;
  if (building.rows != nullptr) {
    ByteBuffer &key = keys_[index], &value = values_[index];
    key.clear();
    if (building.rows->primary->hidden())
      key.append(primary->data(), primary->size());
    else
      building.rows->primary->encode_record(record, &key);
    value.clear();
    building.rows->rows->encode(record, &value);
    checked_[index] = building.rows->new_primary;
    failed = has_failed(index);
    primary = &key;
    row = slice(value);
    index++;
  }
  for (const Share::BuildingKey &key : building.keys) {
    if (!key.virtual_columns.empty()) compute_virtual_columns(table, key.virtual_columns, record);
    encode_key({*key.codec, key.originals.get(), key.clustering, key.unique, key.nullable},
               {record, slice(*primary), row}, index);
    if (unique_[index] && values_[index].empty()) values_[index].append(primary->data(), primary->size());
    checked_[index] = unique_[index] && key.checked;
    failed |= has_failed(index);
    index++;
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
