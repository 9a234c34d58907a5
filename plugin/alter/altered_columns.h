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

/* For each column of the altered table, its number in the old table; UINT32_MAX: none. Returns nullptr, or the reason
   why the columns do not match. */
const char *old_columns_of(const TABLE *altered, const Alter_inplace_info *alter, std::vector<uint32_t> *old_columns);

/* Stores the values of new stored columns for existing rows in the altered table's record. Returns nullptr, or the
   reason why the rows do not all have the same value. */
const char *evaluate_added_columns(THD *thd, TABLE *altered, const Alter_inplace_info *alter);

}  // namespace teak

#endif
