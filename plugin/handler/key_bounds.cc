/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See key_bounds.h. */

#include "handler/key_bounds.h"

#include "session/cursor.h"

namespace teak {

bool encode_bound(const KeyCodec &codec, const key_range &range, RangeEnd end, ByteBuffer *bytes, teak_slice *bound) {
  bytes->clear();
  codec.encode_prefix(range.key, range.keypart_map, bytes);
  if (bytes->failed()) return false;
  const bool after = end == RangeEnd::Lower ? range.flag == HA_READ_AFTER_KEY : range.flag != HA_READ_BEFORE_KEY;
  const bool bounded = !after || to_prefix_successor(bytes);
  *bound = bounded ? slice(*bytes) : UNBOUNDED;
  return true;
}

bool is_equality(const key_range *min, const key_range *max, key_part_map parts) {
  return min != nullptr && max != nullptr && min->keypart_map == parts && max->keypart_map == parts &&
         min->flag != HA_READ_AFTER_KEY && max->flag != HA_READ_BEFORE_KEY && min->length == max->length &&
         memcmp(min->key, max->key, min->length) == 0;
}

}  // namespace teak
