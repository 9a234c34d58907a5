/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What the server's log of DDL leaves to the engine after a crash. The log repeats or reverts renames table by table, but of
   a partitioned table some partitions may have been renamed and some not, and a partition that is no longer under its old
   name ends the server's attempt. */

#ifndef TEAK_TABLE_DDL_RECOVERY_H
#define TEAK_TABLE_DDL_RECOVERY_H

#include "base/server_version.h"

namespace teak {

/* Whether the server is still working off its log and finds a rename done already: the table has its new name. */
bool is_renamed_before_crash(const char *to);

/* The server's hook at the end of its recovery: drops tables with names of an unfinished ALTER that no definition goes
   with, which nobody can reach. */
int finish_ddl_recovery(handlerton *hton);

}  // namespace teak

#endif
