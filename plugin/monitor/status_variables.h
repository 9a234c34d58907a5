/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Status variables Teak_*. */

#ifndef TEAK_MONITOR_STATUS_VARIABLES_H
#define TEAK_MONITOR_STATUS_VARIABLES_H

#include "base/server_version.h"

namespace teak {

extern struct st_mysql_show_var status_variables[];

}  // namespace teak

#endif
