/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* REPAIR TABLE: copies all rows that can be read into new files, and builds all keys from them. The rebuild is
   committed by one log record; until then the table is unchanged. The old files of a damaged table are moved to the
   directory #teak_orphans.

   What could not be read is reported. If the newest version of a row was lost, an older version takes its place. It
   may have the same value of a unique key as another row; then one of the two rows is left out. */

#ifndef TEAK_ALTER_REPAIR_TABLE_H
#define TEAK_ALTER_REPAIR_TABLE_H

#include "base/server_version.h"

#include "table/open_table.h"

namespace teak {

/* Returns HA_ADMIN_OK, with warnings about what was lost, or an HA_ADMIN_ error. The server has closed all other
   instances of the table. `undamaged`: is_undamaged() (handler/check.h) has found no damage. */
int repair_table(OpenTable &open, THD *thd, bool undamaged);

}  // namespace teak

#endif
