/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Completes the server's DDL recovery after a crash. The server's DDL log repeats or reverts renames table by table.
   If some partitions of a table were renamed before the crash, the server would stop at the first of them, because it
   is not found under its old name. */

#ifndef TEAK_TABLE_DDL_RECOVERY_H
#define TEAK_TABLE_DDL_RECOVERY_H

#include "base/server_version.h"

namespace teak {

/* Whether the server is replaying its DDL log and repeats a completed rename: the table already has its new name. */
bool is_renamed_before_crash(const char *to);

/* The server's hook at the end of its recovery: drops tables of an unfinished ALTER, which have no .frm file and cannot be
   reached. */
int finish_ddl_recovery(handlerton *hton);

}  // namespace teak

#endif
