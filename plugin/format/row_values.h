/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Reading and writing single columns of a row's value (docs/design/format.md, 'A row'), shared by RowCodec and EarlierRows. */

#ifndef TEAK_FORMAT_ROW_VALUES_H
#define TEAK_FORMAT_ROW_VALUES_H

#include "format/bytes.h"
#include "format/row_plan.h"

namespace teak {

struct Slice {
  const uint8_t *bytes;
  size_t length;
};

inline void copy_fixed(uint8_t *to, const uint8_t *from, uint32_t width) {
  switch (width) {
    case 1:
      *to = *from;
      break;
    case 2:
      memcpy(to, from, 2);
      break;
    case 3:
      memcpy(to, from, 3);
      break;
    case 4:
      memcpy(to, from, 4);
      break;
    case 8:
      memcpy(to, from, 8);
      break;
    default:
      memcpy(to, from, width);
      break;
  }
}

inline size_t without_padding(const uchar *string, size_t length, uint8_t pad) {
  const uint64_t pads = 0x0101010101010101ULL * pad;
  while (length >= 8 && load_little(string + length - 8, 8) == pads) length -= 8;
  while (length > 0 && string[length - 1] == pad) length--;
  return length;
}

/* The stored bytes of a column that is not NULL. */
inline Slice slice_of(const RowPlan::Variable &column, const uchar *record) {
  const uchar *value = record + column.offset;
  switch (column.kind) {
    case RowPlan::Kind::Varchar: {
      size_t length = load_little(value, column.length_bytes);
      return {value + column.length_bytes, length < column.bytes_max ? length : column.bytes_max};
    }
    case RowPlan::Kind::Blob: {
      const uchar *blob;
      memcpy(&blob, value + column.length_bytes, sizeof blob);
      return {blob, blob == nullptr ? 0 : load_little(value, column.length_bytes)};
    }
    case RowPlan::Kind::Char:
      return {value, without_padding(value, column.bytes_max, column.pad)};
    default:
      return {value, column.collation->lengthsp(reinterpret_cast<const char *>(value), column.bytes_max)};
  }
}

/* Clears the bytes of a column whose NULL bit is set, because some code reads them before it checks for NULL. */
inline void clear_variable(const RowPlan::Variable &column, uchar *record) {
  uchar *value = record + column.offset;
  switch (column.kind) {
    case RowPlan::Kind::Varchar:
      store_little(value, 0, column.length_bytes);
      break;
    case RowPlan::Kind::Blob:
      memset(value, 0, column.length_bytes + sizeof(uchar *));
      break;
    default:
      memset(value, 0, column.bytes_max);
      break;
  }
}

/* Writes the stored bytes of the column into the record; `length` must not exceed the column's maximum. False: out
   of memory. */
inline bool set_variable(const RowPlan::Variable &column, const uint8_t *bytes, uint32_t length, uchar *record,
                         BlobArena *blobs) {
  uchar *value = record + column.offset;
  switch (column.kind) {
    case RowPlan::Kind::Varchar:
      store_little(value, length, column.length_bytes);
      memcpy(value + column.length_bytes, bytes, length);
      return true;
    case RowPlan::Kind::Blob:
      store_little(value, length, column.length_bytes);
      if (blobs != nullptr && length != 0) bytes = blobs->copy(bytes, length);
      memcpy(value + column.length_bytes, &bytes, sizeof bytes);
      return bytes != nullptr;
    case RowPlan::Kind::Char:
      memcpy(value, bytes, length);
      memset(value + length, column.pad, column.bytes_max - length);
      return true;
    default:
      memcpy(value, bytes, length);
      column.collation->fill(reinterpret_cast<char *>(value) + length, column.bytes_max - length, ' ');
      return true;
  }
}

inline bool is_null(const RowPlan::Variable &column, const uchar *record) {
  return (record[column.null_offset] & column.null_bit) != 0;  // null_bit 0: never
}

}  // namespace teak

#endif
