/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See engine.h. */

#include "base/engine.h"

namespace teak {

handlerton *engine_handlerton = nullptr;
teak_engine *engine = nullptr;

}  // namespace teak
