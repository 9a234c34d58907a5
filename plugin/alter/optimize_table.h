/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* OPTIMIZE TABLE: rewrites rows and keys, sorted, into new files under the same definition. The steps are those of ALTER TABLE
   ... FORCE in place (see alter_prepare.h). A partitioned table is rewritten and committed partition by partition. */

#ifndef TEAK_ALTER_OPTIMIZE_TABLE_H
#define TEAK_ALTER_OPTIMIZE_TABLE_H

#include "base/server_version.h"

#include "table/open_table.h"

namespace teak {

/* True: an error was raised, and the table is unchanged. The caller has closed its cursors. */
bool optimize_table(OpenTable &open, THD *thd);

}  // namespace teak

#endif
