/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The bounds of a key range in the form that the engine's cursors take: `lower` is inclusive, `upper` is exclusive. */

#ifndef TEAK_HANDLER_KEY_BOUNDS_H
#define TEAK_HANDLER_KEY_BOUNDS_H

#include "base/server_version.h"

#include "base/core.h"
#include "format/buffer.h"
#include "format/key_codec.h"

namespace teak {

enum class RangeEnd { Lower, Upper };
/* Encodes a bound in *bytes. *bound refers to it, or is UNBOUNDED if there is no bound. False: out of memory. */
bool encode_bound(const KeyCodec &codec, const key_range &range, RangeEnd end, ByteBuffer *bytes, teak_slice *bound);

/* Whether the range between the bounds has exactly the rows that are equal in these parts of the key. */
bool is_equality(const key_range *min, const key_range *max, key_part_map parts);

}  // namespace teak

#endif
