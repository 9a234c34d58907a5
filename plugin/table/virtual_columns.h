/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Virtual columns that keys are on. */

#ifndef TEAK_TABLE_VIRTUAL_COLUMNS_H
#define TEAK_TABLE_VIRTUAL_COLUMNS_H

#include "base/server_version.h"

namespace teak {

/* Computes the virtual columns of a key in the first record, which holds the others; no more of them, for one that is in no
   key may have a value that is an error. `quietly`: a bad value is not. True: an error. */
bool compute_virtual_columns(TABLE *table, uint key, bool quietly);

}  // namespace teak

#endif
