/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* AlteredRows: the format of the rows after an ALTER TABLE. Either existing rows can be read under the new definition,
   with a description that the table's metadata stores; or all rows are rewritten. */

#ifndef TEAK_ALTER_ALTERED_ROWS_H
#define TEAK_ALTER_ALTERED_ROWS_H

#include "base/server_version.h"

#include <memory>

#include "format/key_codec.h"
#include "format/row_codec.h"
#include "table/share.h"

namespace teak {

struct AlteredRows {
  std::shared_ptr<const KeyCodec> primary;  // of the altered table, like all members
  std::unique_ptr<RowCodec> rows;           // after plan() it also reads rows from before the ALTER
  RowHistory history;

  /* For rows that are not rewritten. The altered table's record must contain the values of its new columns, see
     evaluate_added_columns(). Returns nullptr, or the reason why the rows must be rewritten. */
  const char *plan(const TABLE *altered, const Alter_inplace_info *alter, const Share &share);

  /* For rows that are all rewritten: the history becomes empty. Returns nullptr, or the reason why the engine cannot
     store the rows. */
  const char *plan_rebuild(const TABLE *altered);
};

}  // namespace teak

#endif
