/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ALTER TABLE in place, step by step:

     prepare  (no statement uses the table) the engine creates the files of new indexes. From then on, writes maintain
              these, if concurrent writes are allowed
     inplace  (concurrent writes, unless the lock forbids them) the rows of one snapshot are read; their entries are sorted
              and written
     commit   (no statement uses the table) one record of the engine's log makes the new indexes, the row format and the
              new version of the definition current; for a partitioned table, those of all partitions

   After a crash the server queries the version of the definition to determine whether the old or the new .frm is
   valid. */

#ifndef TEAK_ALTER_ALTER_PREPARE_H
#define TEAK_ALTER_ALTER_PREPARE_H

#include "base/server_version.h"

#include "alter/alter_context.h"
#include "table/open_table.h"

namespace teak {

/* handler::prepare_inplace_alter_table(). True: an error was raised. */
bool prepare_alter(OpenTable &open, TABLE *altered, Alter_inplace_info *alter);

/* Prepares to rewrite rows and keys under the same definition. True: an error was raised. */
bool prepare_optimize(AlterContext &context);

/* Like prepare_optimize(), but duplicates of a unique key do not fail the build. True: an error was raised. */
bool prepare_repair(AlterContext &context);

}  // namespace teak

#endif
