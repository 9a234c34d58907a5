/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowCodec encodes a server record as the value stored with its primary key, and decodes it. Columns that can be decoded from
   the primary key are omitted, as are virtual columns. It does not handle key order or the tree. The byte format (layout 1)
   is specified in docs/design/format.md, 'Keys and rows'.

   A codec has no pointer to a Field or TABLE: it can be shared by threads and can outlive the TABLE it was created
   from. */

#ifndef TEAK_FORMAT_ROW_CODEC_H
#define TEAK_FORMAT_ROW_CODEC_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "base/core.h"
#include "format/buffer.h"
#include "format/key_codec.h"
#include "format/row_history.h"

struct TABLE;

namespace teak {

struct RowPlan;
class EarlierRows;

class RowCodec {
 public:
  /* The codec of the table's current rows. `primary` (nullptr or the hidden codec: no primary key) determines which
     columns the key contains; decode() requires the same codec. `history` describes rows of earlier schema versions,
     which decode() then reads too; nullptr when there are none. Returns nullptr with a message in *error when a
     column's type is not supported, or the history does not match the table. */
  static std::unique_ptr<RowCodec> create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                          uint32_t schema_version, const RowHistory *history, std::string *error);

  ~RowCodec();
  RowCodec(const RowCodec &) = delete;
  RowCodec &operator=(const RowCodec &) = delete;

  /* Appends the value of a record. Sets out->failed() when out of memory. */
  void encode(const uchar *record, ByteBuffer *out) const;

  /* Writes the columns in `read_set` (nullptr: all) into the record; columns omitted from the value are decoded from the encoded
     primary key `key`. Other stored columns may be written too. BLOB columns point to copies in `blobs`, or, with nullptr,
     into `value` itself, which must then outlive the use of the record.
     False when the bytes are malformed or memory ran out; the record may then be partly written. */
  bool decode(const uint8_t *value, size_t length, const uint8_t *key, size_t key_length, uchar *record,
              const MY_BITMAP *read_set, BlobArena *blobs) const;

  /* Whether a reader of this set, of so many words, needs all columns. */
  bool needs_all(const my_bitmap_map *read, size_t words) const;
  /* The columns that a reader of this set needs, as the bits of teak_columns_new(). */
  std::vector<uint64_t> columns_for(const std::vector<my_bitmap_map> &read) const;
  /* The number of a column, counted as the bits of teak_columns_new(); 0: values do not have the column. */
  size_t number_of(uint32_t column) const;
  /* How values of this schema version begin. */
  teak_slice beginning() const;

  uint32_t schema_version() const;
  const ColumnLayout &layout() const;

  /* Whether this codec reads values written by `other` correctly without conversion. `old_columns` maps each column of
     this codec's table to a column of the other's; UINT32_MAX: none. */
  bool same_form(const RowCodec &other, const std::vector<uint32_t> &old_columns) const;

  /* Converts the history of `other` to the columns of this codec's table, and adds the rows of `other` itself, which
     has the previous schema version. `record` contains the values of new columns for earlier rows; `old_columns` is
     as in same_form(). Returns nullptr, or the reason why rows of `other` cannot be read by this codec. */
  const char *inherit(const RowCodec &other, const std::vector<uint32_t> &old_columns, const uchar *record,
                      RowHistory *history) const;

  /* Number of leading bytes that have the same layout in every value of this schema version: header, NULL area and NOT
     NULL columns of fixed width. */
  uint32_t fixed_bytes() const;
  /* What these bytes consist of. */
  const std::vector<teak_column> &fixed_columns() const;
  /* The columns of the other bytes: of fixed width and nullable, and of variable width with the number of their NULL bit. */
  const std::vector<teak_optional_column> &optional_columns() const;
  const std::vector<uint32_t> &variable_columns() const;
  /* The columns of the table that these three lists consist of, after header and NULL area. */
  std::vector<uint32_t> stored_columns() const;

 private:
  explicit RowCodec(std::unique_ptr<RowPlan> plan);

  std::unique_ptr<RowPlan> plan_;
  std::unique_ptr<EarlierRows> earlier_;  // null when all rows have this schema version
};

}  // namespace teak

#endif
