/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ColumnConversion: how stored values of an earlier definition of a column are read as values of its current definition. An
   instant ALTER TABLE is possible if each stored value has an exact counterpart; values are never checked or rounded. */

#ifndef TEAK_FORMAT_COLUMN_CONVERSION_H
#define TEAK_FORMAT_COLUMN_CONVERSION_H

#include <my_global.h>

#include <vector>

#include "format/buffer.h"
#include "format/row_plan.h"

namespace teak {

class ColumnConversion {
 public:
  /* From values of this type and width (bytes, or ColumnLayout::VARIABLE) to the column at `place` of the plan. With
     StoredType::Kind::Current they have the type of the column. */
  static ColumnConversion between(StoredType from, uint32_t width, const RowPlan &plan, const RowPlan::Place &place) {
    return between(from, width, place, plan.variable_of(place));
  }
  /* `variable`: nullptr for a column of fixed width. */
  static ColumnConversion between(StoredType from, uint32_t width, const RowPlan::Place &place,
                                  const RowPlan::Variable *variable);

  /* Of values that are stored as the column stores them. */
  static ColumnConversion none() {
    ColumnConversion conversion;
    conversion.step_ = Step::Copy;
    return conversion;
  }

  bool is_possible() const { return step_ != Step::Impossible; }
  /* Whether the stored bytes are the same. */
  bool keeps_bytes() const { return step_ == Step::Copy; }

  /* Writes the value to the record; `stored` must be the width unless this is variable. `blobs` is as in
     RowCodec::decode(). False: the value is too long, or memory ran out. */
  bool set(const RowPlan::Place &place, const RowPlan::Variable *variable, const uint8_t *bytes, uint32_t stored,
           uchar *record, BlobArena *blobs) const;

  /* Replaces stored bytes by those of the column. */
  void convert(const RowPlan::Place &place, std::vector<uint8_t> *bytes) const;

 private:
  enum class Step : uint8_t {
    Impossible,
    Copy,
    Signed,        // of a little-endian integer in two's complement
    Padding,       // with bytes behind it
    Spaces,        // with characters of several bytes behind it
    Fraction,      // with decimal digits behind the seconds
    TimeFraction,  // the same, if the value may be negative
    Decimal,       // with decimal digits in front and behind
    Strip,         // spaces at the end are removed
    Zeros,         // of a variable column: with zeros behind it up to a length
  };

  void choose_fixed(StoredType from, uint32_t width, const RowPlan::Place &place);
  void choose_variable(StoredType from, uint32_t width, const RowPlan::Place &place, const RowPlan::Variable &variable);
  void extend(const RowPlan::Place &place, const uint8_t *bytes, uint32_t stored, uint8_t *to) const;
  uint32_t stripped(const RowPlan::Place &place, const uint8_t *bytes, uint32_t stored) const;

  Step step_ = Step::Impossible;
  uint8_t padding_ = 0;
  uint32_t parameter_ = 0;  // of the type of the stored values
};

}  // namespace teak

#endif
