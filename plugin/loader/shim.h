/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What the loader and its shims must agree on. TEAK_CORE_ID, a text, identifies the version of the core: a shim works only
   with the core for which it was compiled. */

#ifndef TEAK_LOADER_SHIM_H
#define TEAK_LOADER_SHIM_H

#include <cstddef>

namespace teak {

constexpr size_t DECLARATIONS_MAX = 31;

}  // namespace teak

#endif
