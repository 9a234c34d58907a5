/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Determines whether rows written before an ALTER TABLE can be read after it, and the history that this requires. */

#ifndef TEAK_FORMAT_ROW_INHERIT_H
#define TEAK_FORMAT_ROW_INHERIT_H

#include <my_global.h>

#include <vector>

#include "format/column_conversion.h"
#include "format/row_history.h"

namespace teak {

struct RowPlan;

/* How values that `old_plan` stores for one of its columns are read as values of a column of `plan`. Columns are numbered as
   in the layouts. */
ColumnConversion conversion_of(const RowPlan &old_plan, size_t old_number, const RowPlan &plan, size_t number);

/* See RowCodec::inherit(). `plan` describes the altered table, `old_plan` the old table. */
const char *inherit_history(const RowPlan &plan, const RowPlan &old_plan, const std::vector<uint32_t> &old_columns,
                            const uchar *record, RowHistory *history);

}  // namespace teak

#endif
