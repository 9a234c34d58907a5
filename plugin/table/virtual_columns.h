/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Virtual columns in keys. */

#ifndef TEAK_TABLE_VIRTUAL_COLUMNS_H
#define TEAK_TABLE_VIRTUAL_COLUMNS_H

#include "base/server_version.h"

#include <vector>

namespace teak {

/* Computes the virtual columns of a key in the table's first record, which must contain the stored columns. Other
   virtual columns are not computed, because their computation may fail. `quietly`: a bad value is not an error.
   Returns true on an error. */
bool compute_virtual_columns(TABLE *table, uint key, bool quietly);

/* The numbers of the fields of a key that are virtual columns. */
std::vector<uint> virtual_columns_of(const TABLE *table, uint key);

/* Computes these virtual columns in one of the table's records. A bad value is not an error. */
void compute_virtual_columns(TABLE *table, const std::vector<uint> &fields, const uchar *record);

}  // namespace teak

#endif
