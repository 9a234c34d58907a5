/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* EarlierRows reads rows of earlier schema versions into a record of today's table: columns that were dropped since are
   passed over, those that were added since get the value they were added with. RowCodec hands over to it the values that do
   not begin with today's version. */

#ifndef TEAK_FORMAT_ROW_EARLIER_H
#define TEAK_FORMAT_ROW_EARLIER_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "format/buffer.h"
#include "format/row_history.h"
#include "format/row_plan.h"

namespace teak {

class EarlierRows {
 public:
  /* `plan`, of today's rows, must outlive it. nullptr with a sentence in *error when the history does not fit the plan. */
  static std::unique_ptr<EarlierRows> create(const RowPlan &plan, const RowHistory &history, std::string *error);

  /* As RowCodec::decode(), but for the columns that the primary key gives back. */
  bool decode(const uint8_t *value, size_t length, uchar *record, const MY_BITMAP *read_set, BlobArena *blobs) const;

 private:
  static constexpr uint32_t NONE = UINT32_MAX;

  struct Column {
    uint32_t place;          // among RowPlan::places, or NONE: dropped
    uint32_t width;          // of the stored bytes, or ColumnLayout::VARIABLE
    uint32_t null_byte = 0;  // in the value's NULL area
    uint8_t null_bit = 0;    // 0: never NULL
  };
  struct Form {
    uint32_t version = 0;
    std::vector<uint8_t> null_mask;
    std::vector<Column> fixed, variable;  // in the order of the value
    std::vector<const RowHistory::Fill *> fills;
    std::vector<uint32_t> filled_places;  // beside the fills
  };

  EarlierRows(const RowPlan &plan, const RowHistory &history) : plan_(plan), history_(history) {}
  bool add(const RowHistory::Version &version, std::string *error);
  const Form *form_of(uint32_t version) const;
  void set_null(const RowPlan::Place &place, uchar *record) const;
  bool set(const RowPlan::Place &place, const uint8_t *bytes, size_t length, uchar *record, const MY_BITMAP *read_set,
           BlobArena *blobs) const;

  const RowPlan &plan_;
  const RowHistory history_;
  std::vector<Form> forms_;  // ascending by version
};

}  // namespace teak

#endif
