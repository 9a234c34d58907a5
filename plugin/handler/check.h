/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* CHECK TABLE. It verifies every block. CHECK ... QUICK only reports damage that a read has found. CHECK ... EXTENDED
   also checks that every key has exactly the entries of the rows. */

#ifndef TEAK_HANDLER_CHECK_H
#define TEAK_HANDLER_CHECK_H

#include "base/server_version.h"

#include "table/open_table.h"

namespace teak {

/* Returns HA_ADMIN_OK or an HA_ADMIN_ error; the statement also reports the error. */
int check_table(OpenTable &open, THD *thd, const HA_CHECK_OPT &options);

/* Whether every block can be read. Reports nothing. */
bool is_undamaged(const OpenTable &open, THD *thd);

}  // namespace teak

#endif
