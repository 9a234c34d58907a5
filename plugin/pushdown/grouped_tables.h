/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */
/* The tables of the engine of which a pushed query computes aggregates. */

#ifndef TEAK_PUSHDOWN_GROUPED_TABLES_H
#define TEAK_PUSHDOWN_GROUPED_TABLES_H

#include "base/server_version.h"

#include <vector>

#include "table/open_table.h"

namespace teak {

/* The table, or its partitions that the statement reads, in the order in which the server scans them. Empty if it reads none,
   if it does not read all of them without locks, or if their rows have different columns. */
std::vector<OpenTable *> grouped_tables(const TABLE *table);

}  // namespace teak

#endif
