/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* DROP TABLE by path, with a handler or without one. */

#ifndef TEAK_TABLE_DROP_TABLE_H
#define TEAK_TABLE_DROP_TABLE_H

#include "base/core.h"

namespace teak {

teak_status drop_engine_table(const char *path);

/* DROP TABLE by path. 0, or HA_ERR_NO_SUCH_TABLE, or another error of the server. */
int drop_table_of_engine(const char *path);

}  // namespace teak

#endif
