/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Rewrites all rows and keys, for an ALTER TABLE that requires it (under another primary key, for example), and for
   FORCE and OPTIMIZE TABLE. The rows become the entries of an added index; the record that commits the ALTER makes this
   index the table's row index. If the order of the rows does not change, they are written while they are read;
   otherwise they are sorted first. The entries of secondary keys are always sorted first. */

#ifndef TEAK_ALTER_REBUILD_TABLE_H
#define TEAK_ALTER_REBUILD_TABLE_H

#include "base/server_version.h"

#include "alter/alter_context.h"

namespace teak {

/* `altered` may be the table itself, with an unchanged definition. True: an error was raised. */
bool rebuild_table(AlterContext &context, TABLE *altered);

}  // namespace teak

#endif
