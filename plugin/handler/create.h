/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* CREATE TABLE. A clause that Teak does not support is rejected with an error that names it, because users would not
   notice an ignored clause. */

#ifndef TEAK_HANDLER_CREATE_H
#define TEAK_HANDLER_CREATE_H

#include "base/server_version.h"

#include "table/open_table.h"

namespace teak {

/* handler::create() of the table with the open table's name. 0 or the server's error. */
int create_table(OpenTable &open, const TABLE *form, const HA_CREATE_INFO *info);

}  // namespace teak

#endif
