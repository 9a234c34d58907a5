/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Little-endian numbers and bit fields of records, and varints (LEB128) of values. */

#ifndef TEAK_FORMAT_BYTES_H
#define TEAK_FORMAT_BYTES_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace teak {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied in their little-endian form");

/* `width` is 1, 2, 3, 4 or 8. */
inline uint64_t load_little(const uint8_t *from, uint32_t width) {
  switch (width) {
    case 1:
      return *from;
    case 2: {
      uint16_t value;
      memcpy(&value, from, 2);
      return value;
    }
    case 3:
      return from[0] | static_cast<uint64_t>(from[1]) << 8 | static_cast<uint64_t>(from[2]) << 16;
    case 4: {
      uint32_t value;
      memcpy(&value, from, 4);
      return value;
    }
    default: {
      uint64_t value;
      memcpy(&value, from, 8);
      return value;
    }
  }
}

/* `width` is 1, 2, 3, 4 or 8; higher bits of the value are dropped. */
inline void store_little(uint8_t *to, uint64_t value, uint32_t width) {
  switch (width) {
    case 1:
      *to = static_cast<uint8_t>(value);
      break;
    case 2:
      memcpy(to, &value, 2);
      break;
    case 3:
      memcpy(to, &value, 3);
      break;
    case 4:
      memcpy(to, &value, 4);
      break;
    default:
      memcpy(to, &value, 8);
      break;
  }
}

/* The mask of a bit field that starts at bit `offset` of a byte and may extend into the next byte. */
inline uint32_t bits_mask(unsigned offset, unsigned length) { return ((1U << length) - 1) << offset; }

inline uint8_t load_bits(const uint8_t *from, unsigned offset, unsigned length) {
  uint32_t word = from[0];
  if (offset + length > 8) word |= static_cast<uint32_t>(from[1]) << 8;
  return static_cast<uint8_t>((word & bits_mask(offset, length)) >> offset);
}

inline void store_bits(uint8_t *to, unsigned offset, unsigned length, uint8_t bits) {
  uint32_t mask = bits_mask(offset, length), value = static_cast<uint32_t>(bits) << offset;
  to[0] = static_cast<uint8_t>((to[0] & ~mask) | (value & mask & 0xFF));
  if (offset + length > 8) to[1] = static_cast<uint8_t>((to[1] & ~(mask >> 8)) | ((value & mask) >> 8));
}

/* Longest encoding of a 32-bit number. */
constexpr size_t VARINT_BYTES_MAX = 5;

/* Writes the number in its shortest form, and returns the end. */
inline uint8_t *put_varint(uint8_t *to, size_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<uint8_t>(value);
  return to;
}

/* Returns false if the number is truncated or has more than 32 bits. */
inline bool take_varint(const uint8_t **from, const uint8_t *end, uint32_t *value) {
  if (*from == end) return false;
  uint8_t byte = *(*from)++;
  if (byte < 0x80) {
    *value = byte;
    return true;
  }
  uint64_t wide = byte & 0x7F;
  for (unsigned shift = 7; shift < 7 * VARINT_BYTES_MAX; shift += 7) {
    if (*from == end) return false;
    byte = *(*from)++;
    wide |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *value = static_cast<uint32_t>(wide);
      return wide <= UINT32_MAX;
    }
  }
  return false;
}

}  // namespace teak

#endif
