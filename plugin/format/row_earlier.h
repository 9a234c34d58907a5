/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* EarlierRows reads rows of earlier schema versions into a record of the current table: it skips columns that were
   dropped since, converts columns that have another type now, and sets columns that were added since to the value that the
   ALTER stored for them. RowCodec passes it the values that do not begin with the current version. */

#ifndef TEAK_FORMAT_ROW_EARLIER_H
#define TEAK_FORMAT_ROW_EARLIER_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "format/buffer.h"
#include "format/column_conversion.h"
#include "format/row_history.h"
#include "format/row_plan.h"

namespace teak {

class EarlierRows {
 public:
  /* `plan` describes the current rows and must outlive this object. nullptr with a message in *error when the
     history does not match it. */
  static std::unique_ptr<EarlierRows> create(const RowPlan &plan, const RowHistory &history, std::string *error);

  /* Like RowCodec::decode(), but does not set columns that are decoded from the primary key. */
  bool decode(const uint8_t *value, size_t length, uchar *record, const MY_BITMAP *read_set, BlobArena *blobs) const;

 private:
  static constexpr uint32_t NONE = UINT32_MAX;

  struct Column {
    uint32_t place;          // index into RowPlan::places, or NONE: dropped
    uint32_t width;          // of the stored bytes, or ColumnLayout::VARIABLE
    uint32_t null_byte = 0;  // byte in the value's NULL area
    uint8_t null_bit = 0;    // 0: never NULL
    ColumnConversion conversion = {};
  };
  struct Form {
    uint32_t version = 0;
    std::vector<uint8_t> null_mask;
    std::vector<Column> fixed, variable;  // in the order in the value
    std::vector<const RowHistory::Fill *> fills;
    std::vector<uint32_t> filled_places;  // parallel to the fills
  };

  EarlierRows(const RowPlan &plan, const RowHistory &history) : plan_(plan), history_(history) {}
  bool add(const RowHistory::Version &version, std::string *error);
  const Form *form_of(uint32_t version) const;
  void set_null(const RowPlan::Place &place, uchar *record) const;
  bool set(const RowPlan::Place &place, const ColumnConversion &conversion, const uint8_t *bytes, uint32_t length,
           uchar *record, const MY_BITMAP *read_set, BlobArena *blobs) const;

  const RowPlan &plan_;
  const RowHistory history_;
  std::vector<Form> forms_;  // ascending by version
};

}  // namespace teak

#endif
