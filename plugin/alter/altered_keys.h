/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Determines which keys of the altered table exist in the old table. */

#ifndef TEAK_ALTER_ALTERED_KEYS_H
#define TEAK_ALTER_ALTERED_KEYS_H

#include "base/server_version.h"

#include <memory>

#include "format/key_codec.h"

namespace teak {

/* For a key of the altered table, its number in the old table; MAX_KEY: it is new. */
uint old_key_of(const TABLE *table, const Alter_inplace_info *alter, uint new_key);

/* Whether an index of the engine has the same entries under both definitions of its key. */
bool has_same_entries(const KEY &old_key, const KEY &new_key);

/* Whether a part of the key is a virtual column. */
bool is_on_virtual_column(const KEY &key);

/* The codec of the altered table's primary key; nullptr if Teak does not support the key. */
std::shared_ptr<const KeyCodec> primary_codec_of(const TABLE *altered);

}  // namespace teak

#endif
