/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ADD KEY: adds the entries of new secondary keys for the rows of one snapshot. Concurrent writers add the entries
   of rows that they write after the snapshot. */

#ifndef TEAK_ALTER_BUILD_KEYS_H
#define TEAK_ALTER_BUILD_KEYS_H

#include "base/server_version.h"

#include "alter/alter_context.h"

namespace teak {

/* True: an error was raised. */
bool build_keys(AlterContext &context, TABLE *altered);

/* Raises the error of a duplicate whose rows are not known. Returns true. */
bool report_written_duplicate(const KEY &key);

/* Called when no statement writes the table any more: raises the error of a duplicate that statements have written
   since build_keys(). True: an error was raised. */
bool report_late_duplicates(AlterContext &context, TABLE *altered);

}  // namespace teak

#endif
