/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Encoding and decoding of one key part. key_part_describe.cc chooses the encoding of a column. */

#include "format/key_part.h"

#include "format/bytes.h"

namespace teak {

namespace {

constexpr uint8_t NULL_MARK = 0, VALUE_MARK = 1;
constexpr size_t IMAGE_LENGTH_BYTES = 2;

void invert(uint8_t *bytes, size_t length, uint8_t inverted) {
  if (inverted == 0) return;
  for (size_t i = 0; i < length; i++) bytes[i] = static_cast<uint8_t>(bytes[i] ^ inverted);
}

inline void put_integer(uint8_t *to, uint64_t value, uint32_t width) {
  store_little(to, __builtin_bswap64(value) >> (64 - 8 * width), width);
}

/* Maps IEEE numbers to unsigned integers with the same order. Positive and negative zero are equal. */
inline uint64_t sortable_double(uint64_t bits) {
  constexpr uint64_t sign = 1ULL << 63;
  if (bits == sign) bits = 0;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

inline uint32_t sortable_float(uint32_t bits) {
  constexpr uint32_t sign = 1U << 31;
  if (bits == sign) bits = 0;
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

}  // namespace

void KeyPart::encode_string(const uchar *value, size_t length, bool whole, ByteBuffer *out) const {
  if (characters_max != 0 && (whole || form == Form::Char)) {
    /* The length of a prefix is in characters, within the part's width in bytes. */
    size_t bytes = length < width ? length : width;
    size_t cut = collation->mbmaxlen > 1 ? collation->charpos(value, value + bytes, characters_max) : characters_max;
    length = cut < bytes ? cut : bytes;
  }
  string->encode(value, length, out);
}

void KeyPart::encode_value(const uchar *value, ByteBuffer *out) const {
  uint8_t *to = out->reserve(width + 8);
  if (to == nullptr) return;
  switch (form) {
    case Form::Integer:
      put_integer(to, load_little(value, width) ^ sign, width);
      break;
    case Form::Float:
      put_integer(to, sortable_float(static_cast<uint32_t>(load_little(value, 4))), 4);
      break;
    case Form::Double:
      put_integer(to, sortable_double(load_little(value, 8)), 8);
      break;
    default:
      memcpy(to, value, width);
      break;
  }
  out->advance(width);
}

void KeyPart::encode_record(const uchar *record, ByteBuffer *out) const {
  const size_t start = out->size();
  if (nullable) {
    bool null = is_null(record);
    out->push(null ? NULL_MARK : VALUE_MARK);
    if (null) {
      if (!out->failed()) invert(out->data() + start, 1, inverted);
      return;
    }
  }
  const uchar *value = record + offset;
  switch (form) {
    case Form::Char:
      encode_string(value, width, true, out);
      break;
    case Form::Varchar: {
      size_t length = load_little(value, length_bytes);
      if (length > field_bytes_max) length = field_bytes_max;
      encode_string(value + length_bytes, length, true, out);
      break;
    }
    case Form::Blob: {
      const uchar *blob;
      memcpy(&blob, value + length_bytes, sizeof blob);
      encode_string(blob, load_little(value, length_bytes), true, out);
      break;
    }
    case Form::Bit: {
      uint8_t *to = out->reserve(width);
      if (to == nullptr) return;
      size_t bytes = width;
      if (bit_length != 0) {
        *to++ = load_bits(record + bit_position, bit_offset, bit_length);
        bytes--;
      }
      memcpy(to, value, bytes);
      out->advance(width);
      break;
    }
    default:
      encode_value(value, out);
      break;
  }
  if (!out->failed()) invert(out->data() + start, out->size() - start, inverted);
}

void KeyPart::encode_image(const uchar *image, ByteBuffer *out) const {
  const size_t start = out->size();
  if (nullable) {
    bool null = *image++ != 0;
    out->push(null ? NULL_MARK : VALUE_MARK);
    if (null) {
      if (!out->failed()) invert(out->data() + start, 1, inverted);
      return;
    }
  }
  switch (form) {
    case Form::Char:
      encode_string(image, width, false, out);
      break;
    case Form::Varchar:
    case Form::Blob: {
      size_t length = load_little(image, IMAGE_LENGTH_BYTES);
      encode_string(image + IMAGE_LENGTH_BYTES, length < width ? length : width, image_whole, out);
      break;
    }
    default:
      encode_value(image, out);
      break;
  }
  if (!out->failed()) invert(out->data() + start, out->size() - start, inverted);
}

bool KeyPart::skip(const uint8_t *key, size_t length, size_t *used) const {
  size_t mark_bytes = 0;
  if (nullable) {
    if (length == 0) return false;
    uint8_t mark = key[0] ^ inverted;
    if (mark > VALUE_MARK) return false;
    mark_bytes = 1;
    if (mark == NULL_MARK) {
      *used = 1;
      return true;
    }
  }
  if (is_string()) {
    if (!string->skip(key + mark_bytes, length - mark_bytes, inverted, used)) return false;
  } else {
    if (length - mark_bytes < width) return false;
    *used = width;
  }
  *used += mark_bytes;
  return true;
}

/* `key` has `width` bytes. */
bool KeyPart::decode_value(const uint8_t *key, uchar *record) const {
  uchar *to = record + offset;
  switch (form) {
    case Form::Integer: {
      uint64_t value = __builtin_bswap64(load_little(key, width)) >> (64 - 8 * width);
      if (inverted != 0) value = ~value;
      store_little(to, value ^ sign, width);
      return true;
    }
    case Form::Raw:
      memcpy(to, key, width);
      invert(to, width, inverted);
      return true;
    case Form::Bit: {
      size_t bytes = width;
      if (bit_length != 0) {
        uint8_t bits = *key++ ^ inverted;
        if (bits >> bit_length != 0) return false;
        store_bits(record + bit_position, bit_offset, bit_length, bits);
        bytes--;
      }
      memcpy(to, key, bytes);
      invert(to, bytes, inverted);
      return true;
    }
    default:
      return false;
  }
}

bool KeyPart::decode_string(const uint8_t *key, size_t length, uchar *record, size_t *used) const {
  uchar *to = record + offset;
  size_t bytes;
  if (form == Form::Char) {
    if (!string->decode(key, length, inverted, to, width, &bytes, used)) return false;
    memset(to + bytes, ' ', width - bytes);
    return true;
  }
  if (form != Form::Varchar || !string->decode(key, length, inverted, to + length_bytes, field_bytes_max, &bytes, used))
    return false;
  store_little(to, bytes, length_bytes);
  return true;
}

bool KeyPart::decode(const uint8_t *key, size_t length, uchar *record, size_t *used) const {
  size_t mark_bytes = 0;
  if (nullable) {
    if (length == 0) return false;
    uint8_t mark = key[0] ^ inverted;
    if (mark > VALUE_MARK) return false;
    mark_bytes = 1;
    if (mark == NULL_MARK) {
      record[null_offset] = static_cast<uchar>(record[null_offset] | null_bit);
      *used = 1;
      return true;
    }
    record[null_offset] = static_cast<uchar>(record[null_offset] & ~null_bit);
  }
  if (is_string()) {
    if (!decode_string(key + mark_bytes, length - mark_bytes, record, used)) return false;
  } else {
    if (length - mark_bytes < width || !decode_value(key + mark_bytes, record)) return false;
    *used = width;
  }
  *used += mark_bytes;
  return true;
}

}  // namespace teak
