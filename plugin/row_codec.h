/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowCodec turns a server record into the value that stands beside its primary key, and back. Columns that the primary
   key gives back are left out, as are virtual generated columns. It knows nothing of keys' order or of the tree. The byte
   format (layout 1) stands in docs/file_format.md, 'Keys and rows'.

   A codec holds no Field and no TABLE: once built it may be shared by threads and outlive the TABLE it was made from. */

#ifndef TEAK_ROW_CODEC_H
#define TEAK_ROW_CODEC_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "codec_buffer.h"
#include "key_codec.h"

struct TABLE;

namespace teak {

/* How the columns of a value lie in it, for readers that know no SQL: fixed widths in stored order, then variable. */
struct ColumnLayout {
  static constexpr uint32_t VARIABLE = UINT32_MAX;
  static constexpr uint32_t NEVER_NULL = UINT32_MAX;
  struct Column {
    uint32_t column;    // position in the table
    uint32_t width;     // bytes, or VARIABLE
    uint32_t null_bit;  // bit in the null area (byte = bit / 8, least significant first), or NEVER_NULL
  };
  uint32_t null_area_bytes = 0;
  std::vector<Column> columns;  // fixed NOT NULL, fixed nullable, variable: the order of the value
};

struct RowPlan;

class RowCodec {
 public:
  /* The codec of the table's rows as it is now. `primary` (nullptr or the hidden codec: no primary key) is read during
     this call only for what it gives back; decode() needs the same codec again.
     nullptr with a sentence in *error when a column has a form that cannot be served. */
  static std::unique_ptr<RowCodec> create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                          uint32_t schema_version, std::string *error);

  ~RowCodec();
  RowCodec(const RowCodec &) = delete;
  RowCodec &operator=(const RowCodec &) = delete;

  /* Appends the value of a record. When memory runs out out->failed() is set. */
  void encode(const uchar *record, ByteBuffer *out) const;

  /* Writes the columns in `read_set` (nullptr: all) into the record; `key` is the encoded primary key, which gives the
     columns left out of the value. Other stored columns may be written too. BLOB columns point into `blobs`' copies, or
     with nullptr into `value` itself, which must then outlive the record's use.
     False when the bytes are malformed (or memory ran out); the record may then be half written. */
  bool decode(const uint8_t *value, size_t length, const uint8_t *key, size_t key_length, uchar *record,
              const MY_BITMAP *read_set, BlobArena *blobs) const;

  /* The schema version a value was written with, for choosing the codec; false when the bytes are malformed. */
  static bool schema_version_of(const uint8_t *value, size_t length, uint32_t *version);

  uint32_t schema_version() const;
  const ColumnLayout &layout() const;

  /* Whether values written by either are read right by the other. `old_columns` tells for each column of this codec's table
     which of the other's it was; UINT32_MAX: none. */
  bool same_form(const RowCodec &other, const std::vector<uint32_t> &old_columns) const;

  /* Leading bytes that stand at the same place in every value: header, NULL area and columns of fixed width that are
     never NULL. */
  uint32_t fixed_bytes() const;

 private:
  explicit RowCodec(std::unique_ptr<RowPlan> plan);

  std::unique_ptr<RowPlan> plan_;
};

}  // namespace teak

#endif
