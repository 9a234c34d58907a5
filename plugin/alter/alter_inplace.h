/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The inplace step of ALTER TABLE (see alter_prepare.h). */

#ifndef TEAK_ALTER_ALTER_INPLACE_H
#define TEAK_ALTER_ALTER_INPLACE_H

#include "base/server_version.h"

namespace teak {

/* handler::inplace_alter_table(). True: an error was raised. */
bool alter_in_place(TABLE *altered, Alter_inplace_info *alter);

}  // namespace teak

#endif
