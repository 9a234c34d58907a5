/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The keys of the server's encryption plugin. */

#ifndef TEAK_BASE_ENCRYPTION_KEYS_H
#define TEAK_BASE_ENCRYPTION_KEYS_H

#include "base/core.h"

namespace teak {

/* The newest version of a key. 0: there is no such key, or no encryption plugin. */
uint32_t newest_key_version(uint32_t key);

/* Lets the engine ask for keys. */
void set_key_callbacks(teak_engine_options *options);

}  // namespace teak

#endif
