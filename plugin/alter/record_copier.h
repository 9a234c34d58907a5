/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RecordCopier: copies the first record of a table to that of the altered table. Values are converted as those of earlier
   rows, unchecked, because rows may have a zero date that the current sql_mode rejects. */

#ifndef TEAK_ALTER_RECORD_COPIER_H
#define TEAK_ALTER_RECORD_COPIER_H

#include "base/server_version.h"

#include <vector>

#include "format/column_conversion.h"

namespace teak {

/* Copies nothing if match() was not called. OPTIMIZE TABLE does not call it, because its altered table is the
   table itself, with the same record. */
class RecordCopier {
 public:
  /* Both tables must outlive the copier. Returns nullptr, or the reason why the server must copy the rows. */
  const char *match(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter);
  /* Copies the record. Returns a NOT NULL column whose value would be NULL, or nullptr. */
  Field *copy() const;

 private:
  struct Side {
    Field *field;
    RowPlan::Place place;  // with the width in the record
    RowPlan::Variable variable;

    const RowPlan::Variable *variable_or_null() const {
      return place.width == ColumnLayout::VARIABLE ? &variable : nullptr;
    }
  };
  struct Column {
    Side from, to;
    ColumnConversion conversion;  // of all types but BIT
  };
  static Side side_of(const TABLE *table, Field *field);

  std::vector<Column> columns_;
};

}  // namespace teak

#endif
