/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The tables TEAK_* of INFORMATION_SCHEMA: separate plugins in the same library. */

#ifndef TEAK_MONITOR_INFORMATION_SCHEMA_H
#define TEAK_MONITOR_INFORMATION_SCHEMA_H

#include "base/server_version.h"

namespace teak {

extern struct st_mysql_information_schema information_schema_info;

/* Called by the server with its ST_SCHEMA_TABLE. */
int init_trx_table(void *schema_table);
int init_locks_table(void *schema_table);
int init_lock_waits_table(void *schema_table);
int init_indexes_table(void *schema_table);
int init_encryption_table(void *schema_table);
int init_columns_table(void *schema_table);
int init_background_jobs_table(void *schema_table);
int init_log_table(void *schema_table);
int init_block_map_table(void *schema_table);
int deinit_table(void *);

}  // namespace teak

#endif
