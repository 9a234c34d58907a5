/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Compiled into a shim only. */

#include "base/server_version.h"

#include "loader/shim.h"

extern "C" {

extern const char teak_shim_core_id[];
const char teak_shim_core_id[] = TEAK_CORE_ID;
}
