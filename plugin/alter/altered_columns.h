/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Columns of an altered table: the corresponding columns of the old table, and the values of added columns in
   existing rows. */

#ifndef TEAK_ALTER_ALTERED_COLUMNS_H
#define TEAK_ALTER_ALTERED_COLUMNS_H

#include "base/server_version.h"

#include <cstdint>
#include <vector>

namespace teak {

constexpr const char *STORED_FORM_CHANGES = "the storage format of a column changes";

/* For each stored column of the altered table, its number in the old table; UINT32_MAX: new or virtual. Returns
   nullptr, or the reason why the columns do not match. */
const char *old_columns_of(const TABLE *altered, const Alter_inplace_info *alter, std::vector<uint32_t> *old_columns);

/* Stores in the altered table's record the values that new stored columns have in existing rows. Returns nullptr, or
   the reason why the server must compute or check these values row by row. */
const char *evaluate_added_columns(THD *thd, TABLE *altered, const Alter_inplace_info *alter);

}  // namespace teak

#endif
