/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Dropping a table by its path. */

#ifndef TEAK_TABLE_DROP_TABLE_H
#define TEAK_TABLE_DROP_TABLE_H

#include "base/core.h"

namespace teak {

/* TEAK_NO_SUCH_TABLE: there is no table with this path. */
teak_status drop_engine_table(const char *path);

/* The handlerton's drop_table, which is called without a handler. 0, HA_ERR_NO_SUCH_TABLE, or another error of the
   server. */
int drop_table_by_path(const char *path);

}  // namespace teak

#endif
