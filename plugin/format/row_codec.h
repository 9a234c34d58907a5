/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowCodec turns a server record into the value that stands beside its primary key, and back. Columns that the primary
   key gives back are left out, as are virtual generated columns. It knows nothing of keys' order or of the tree. The byte
   format (layout 1) stands in docs/file_format.md, 'Keys and rows'.

   A codec holds no Field and no TABLE: once built it may be shared by threads and outlive the TABLE it was made from. */

#ifndef TEAK_FORMAT_ROW_CODEC_H
#define TEAK_FORMAT_ROW_CODEC_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "format/buffer.h"
#include "format/key_codec.h"
#include "format/row_history.h"

struct TABLE;

namespace teak {

struct RowPlan;
class EarlierRows;

class RowCodec {
 public:
  /* The codec of the table's rows as it is now. `primary` (nullptr or the hidden codec: no primary key) is read during
     this call only for what it gives back; decode() needs the same codec again. `history`: of rows of earlier schema
     versions, which decode() then reads too; nullptr when there are none.
     nullptr with a sentence in *error when a column has a form that cannot be served, or the history is not the table's. */
  static std::unique_ptr<RowCodec> create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                          uint32_t schema_version, const RowHistory *history, std::string *error);

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

  uint32_t schema_version() const;
  const ColumnLayout &layout() const;

  /* Whether values written by the other are read right by this one as they are. `old_columns` tells for each column of
     this codec's table which of the other's it was; UINT32_MAX: none. */
  bool same_form(const RowCodec &other, const std::vector<uint32_t> &old_columns) const;

  /* Brings the history of rows of `other` into terms of this codec's table, and adds rows of `other` themselves, which has
     the schema version before this one's. `record` holds what rows of before have in columns that are new; `old_columns` as
     in same_form(). nullptr, or why rows of `other` cannot be read as this codec's. */
  const char *inherit(const RowCodec &other, const std::vector<uint32_t> &old_columns, const uchar *record,
                      RowHistory *history) const;

  /* Leading bytes that stand at the same place in every value: header, NULL area and columns of fixed width that are
     never NULL. */
  uint32_t fixed_bytes() const;

 private:
  explicit RowCodec(std::unique_ptr<RowPlan> plan);

  std::unique_ptr<RowPlan> plan_;
  std::unique_ptr<EarlierRows> earlier_;  // null when all rows are of this schema version
};

}  // namespace teak

#endif
