/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The engine of this server and its handlerton. */

#ifndef TEAK_BASE_ENGINE_H
#define TEAK_BASE_ENGINE_H

#include "base/server_version.h"

#include "base/core.h"

namespace teak {

extern handlerton *engine_handlerton;
extern teak_engine *engine;  // set while the plugin is loaded

}  // namespace teak

#endif
