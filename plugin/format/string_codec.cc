/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Implements the encodings described in string_codec.h. string_codec_units.cc chooses the units of a collation. */

#include "format/string_codec.h"

#include "format/weight_pages.h"

namespace teak {

namespace {

constexpr uint8_t BAD = 0xFF;  // precedes a byte that is not part of a valid character
constexpr uint8_t LESS_LONG = 127, END = 128, GREATER_LONG = 129;
constexpr size_t LESS_MAX = 126, GREATER_MAX = 125;
constexpr uint8_t ESCAPED_ZERO = 0xFF;
constexpr size_t LONG_RUN_BYTES = 4;

uint8_t *put_be32(uint8_t *to, uint32_t value) {
  to[0] = static_cast<uint8_t>(value >> 24);
  to[1] = static_cast<uint8_t>(value >> 16);
  to[2] = static_cast<uint8_t>(value >> 8);
  to[3] = static_cast<uint8_t>(value);
  return to + 4;
}

/* Writes the bytes that follow the space unit of a sequence of spaces that is not at the end. */
uint8_t *put_run(uint8_t *to, size_t spaces, bool greater_follows) {
  auto count = static_cast<uint32_t>(spaces);
  if (greater_follows) {
    if (spaces <= GREATER_MAX) {
      *to++ = static_cast<uint8_t>(255 - spaces);
      return to;
    }
    *to++ = GREATER_LONG;
    return put_be32(to, ~count);
  }
  if (spaces <= LESS_MAX) {
    *to++ = static_cast<uint8_t>(spaces);
    return to;
  }
  *to++ = LESS_LONG;
  return put_be32(to, count);
}

/* Sets the number of bytes after the head byte of a sequence of spaces. False for values that put_run() never
   writes. */
inline bool run_tail(uint8_t head, size_t *tail_bytes) {
  *tail_bytes = head == LESS_LONG || head == GREATER_LONG ? LONG_RUN_BYTES : 0;
  return head != 0 && head != 255;
}

bool run_length(const uint8_t *head, uint8_t inverted, size_t *spaces) {
  uint8_t value = *head ^ inverted;
  if (value == LESS_LONG || value == GREATER_LONG) {
    uint32_t count = 0;
    for (size_t i = 1; i <= LONG_RUN_BYTES; i++) count = count << 8 | static_cast<uint8_t>(head[i] ^ inverted);
    *spaces = value == LESS_LONG ? count : ~count;
    return *spaces > GREATER_MAX;
  }
  *spaces = value < END ? value : 255 - value;
  return value != 0 && value != 255;
}

inline uint8_t *put_code(uint8_t *to, uint32_t code) {
  if (code < 0x80) {
    *to++ = static_cast<uint8_t>(code);
  } else if (code < 0x800) {
    *to++ = static_cast<uint8_t>(0xC0 | code >> 6);
    *to++ = static_cast<uint8_t>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *to++ = static_cast<uint8_t>(0xE0 | code >> 12);
    *to++ = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    *to++ = static_cast<uint8_t>(0x80 | (code & 0x3F));
  } else {
    *to++ = static_cast<uint8_t>(0xF0 | code >> 18);
    *to++ = static_cast<uint8_t>(0x80 | (code >> 12 & 0x3F));
    *to++ = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    *to++ = static_cast<uint8_t>(0x80 | (code & 0x3F));
  }
  return to;
}

inline bool continues(uchar byte) { return (byte ^ 0x80) < 0x40; }

/* Length of the character of two or more bytes at `from` in the server's utf8mb3 or utf8mb4; 0 when there is none. */
inline size_t utf8_character(const uchar *from, const uchar *end, bool four_bytes, uint32_t *code) {
  uchar head = from[0];
  size_t left = static_cast<size_t>(end - from);
  if (head < 0xC2) return 0;
  if (head < 0xE0) {
    if (left < 2 || !continues(from[1])) return 0;
    *code = static_cast<uint32_t>(head & 0x1F) << 6 | (from[1] ^ 0x80);
    return 2;
  }
  if (head < 0xF0) {
    if (left < 3 || !continues(from[1]) || !continues(from[2]) || (head == 0xE0 && from[1] < 0xA0)) return 0;
    *code = static_cast<uint32_t>(head & 0x0F) << 12 | static_cast<uint32_t>(from[1] ^ 0x80) << 6 | (from[2] ^ 0x80);
    return 3;
  }
  if (!four_bytes || head > 0xF4 || left < 4 || !continues(from[1]) || !continues(from[2]) || !continues(from[3]) ||
      (head == 0xF0 && from[1] < 0x90) || (head == 0xF4 && from[1] > 0x8F))
    return 0;
  *code = static_cast<uint32_t>(head & 0x07) << 18 | static_cast<uint32_t>(from[1] ^ 0x80) << 12 |
          static_cast<uint32_t>(from[2] ^ 0x80) << 6 | (from[3] ^ 0x80);
  return 4;
}

constexpr uint64_t EACH_BYTE = 0x0101010101010101ULL, HIGH_BITS = 0x8080808080808080ULL;

inline uint64_t load64(const uchar *from) {
  uint64_t value;
  memcpy(&value, from, sizeof value);
  return value;
}

inline bool has_byte(uint64_t value, uint8_t byte) {
  uint64_t zero_where_equal = value ^ EACH_BYTE * byte;
  return ((zero_where_equal - EACH_BYTE) & ~zero_where_equal & HIGH_BITS) != 0;
}

size_t without_trailing_spaces(const uchar *string, size_t length) {
  while (length >= 8 && load64(string + length - 8) == EACH_BYTE * ' ') length -= 8;
  while (length > 0 && string[length - 1] == ' ') length--;
  return length;
}

/* Writes units: unit() writes the first byte of each, rest() the others. Encodes spaces (or zero bytes) as the ending
   requires. */
template <bool SPACES> struct UnitWriter {
  uint8_t *to;
  uint8_t space;
  size_t run = 0;

  inline void unit(uint8_t first) {
    if constexpr (SPACES) {
      if (first == space) {
        run++;
        return;
      }
      if (run != 0) end_run(first);
      *to++ = first;
    } else {
      *to++ = first;
      if (first == 0) *to++ = ESCAPED_ZERO;
    }
  }
  inline void rest(uint8_t byte) { *to++ = byte; }
  void end_run(uint8_t next) {
    *to++ = space;
    to = put_run(to, run, next > space);
    run = 0;
  }
  uint8_t *finish() {
    if constexpr (SPACES) {
      *to++ = space;
      *to++ = END;
    } else {
      *to++ = 0;
      *to++ = 0;
    }
    return to;
  }
  /* Whether eight bytes can be copied unchanged. */
  inline bool plain(uint64_t eight) const { return run == 0 && !has_byte(eight, SPACES ? space : 0); }
};

}  // namespace

template <StringCodec::Ending E>
uint8_t *StringCodec::write_map(const uchar *from, const uchar *end, uint8_t *to) const {
  UnitWriter<E == Ending::Spaces> writer{to, space_};
  if (identity_) {
    while (from < end) {
      if (end - from >= 8) {
        uint64_t eight = load64(from);
        if (writer.plain(eight)) {
          memcpy(writer.to, &eight, 8);
          writer.to += 8;
          from += 8;
          continue;
        }
      }
      writer.unit(*from++);
    }
  } else {
    while (from < end) writer.unit(map_[*from++]);
  }
  return writer.finish();
}

template <StringCodec::Ending E>
uint8_t *StringCodec::write_utf8(const uchar *from, const uchar *end, uint8_t *to) const {
  UnitWriter<E == Ending::Spaces> writer{to, space_};
  const bool binary = units_ == Units::Utf8Binary;
  while (from < end) {
    uchar byte = *from;
    if (byte < 0x80) {
      if (binary && end - from >= 8) {
        uint64_t eight = load64(from);
        if ((eight & HIGH_BITS) == 0 && writer.plain(eight)) {
          memcpy(writer.to, &eight, 8);
          writer.to += 8;
          from += 8;
          continue;
        }
      }
      writer.unit(map_[byte]);
      from++;
      continue;
    }
    uint32_t code = 0;
    size_t bytes = utf8_character(from, end, four_bytes_, &code);
    if (bytes == 0) {
      writer.unit(BAD);
      writer.rest(byte);
      from++;
    } else if (binary) {
      writer.unit(byte);
      for (size_t i = 1; i < bytes; i++) writer.rest(from[i]);
      from += bytes;
    } else {
      uint8_t form[4];
      uint8_t *form_end = put_code(form, weights_->of(code));
      writer.unit(form[0]);
      for (uint8_t *rest = form + 1; rest < form_end; rest++) writer.rest(*rest);
      from += bytes;
    }
  }
  return writer.finish();
}

template <StringCodec::Ending E>
uint8_t *StringCodec::write_wide(const uchar *from, const uchar *end, uint8_t *to) const {
  UnitWriter<E == Ending::Spaces> writer{to, space_};
  while (from < end) {
    my_wc_t code = 0;
    int bytes = collation_->mb_wc(&code, from, end);
    if (bytes <= 0) {
      writer.unit(BAD);
      writer.rest(static_cast<uint8_t>(0x80 | *from >> 4));
      writer.rest(static_cast<uint8_t>(0x80 | (*from & 0x0F)));
      from++;
      continue;
    }
    auto weight = static_cast<uint32_t>(code);
    if (units_ == Units::WideGeneral) weight = weights_->of(weight);
    uint8_t form[4];
    uint8_t *form_end = put_code(form, weight);
    writer.unit(form[0]);
    for (uint8_t *rest = form + 1; rest < form_end; rest++) writer.rest(*rest);
    from += bytes;
  }
  return writer.finish();
}

template <StringCodec::Ending E>
uint8_t *StringCodec::write_multibyte(const uchar *from, const uchar *end, uint8_t *to) const {
  UnitWriter<E == Ending::Spaces> writer{to, space_};
  while (from < end) {
    if (*from < 0x80) {
      writer.unit(map_[*from++]);
      continue;
    }
    int bytes = collation_->charlen(from, end);
    if (bytes <= 0) {
      writer.unit(BAD);
      writer.rest(*from++);
    } else if (bytes == 1) {
      writer.unit(map_[*from++]);
    } else if (units_ == Units::MultibyteWeights) {
      uchar weight[4] = {};
      collation_->coll->strnxfrm(collation_, weight, sizeof weight, 1, from, static_cast<size_t>(bytes), 0);
      uint8_t form[4];
      uint8_t *form_end = put_code(form, static_cast<uint32_t>(weight[0]) << 8 | weight[1]);
      writer.unit(form[0]);
      for (uint8_t *rest = form + 1; rest < form_end; rest++) writer.rest(*rest);
      from += bytes;
    } else {
      writer.unit(*from);
      for (int i = 1; i < bytes; i++) writer.rest(from[i]);
      from += bytes;
    }
  }
  return writer.finish();
}

template <StringCodec::Ending E> uint8_t *StringCodec::write(const uchar *from, const uchar *end, uint8_t *to) const {
  switch (units_) {
    case Units::Utf8Binary:
    case Units::Utf8General:
      return write_utf8<E>(from, end, to);
    case Units::Wide:
    case Units::WideGeneral:
      return write_wide<E>(from, end, to);
    case Units::Multibyte:
    case Units::MultibyteWeights:
      return write_multibyte<E>(from, end, to);
    default:
      return write_map<E>(from, end, to);
  }
}

/* Writes strnxfrm's output into reserved space of `out`, behind enough space for its encoding. */
bool StringCodec::transform(const uchar *string, size_t length, uint flags, size_t weights_max, ByteBuffer *out,
                            const uint8_t **weights, size_t *weights_length) const {
  static const uchar nothing[1] = {0};
  const size_t unit_bytes_max =
      64;  // maximum for a character: output that ends this close to the limit may be truncated
  for (size_t room = weights_max + unit_bytes_max;; room *= 4) {
    size_t encoded_max = room * 2 + 16;
    uint8_t *to = out->reserve(encoded_max + room);
    if (to == nullptr) return false;
    *weights = to + encoded_max;
    *weights_length = collation_->coll->strnxfrm(collation_, to + encoded_max, room, UINT_MAX32,
                                                 length == 0 ? nothing : string, length, flags);
    if (*weights_length + unit_bytes_max <= room || room > (1U << 26)) return true;
  }
}

void StringCodec::encode_uca(const uchar *string, size_t length, ByteBuffer *out) const {
  size_t count = 0;
  for (unsigned i = 0; i < levels_count_; i++) {
    const Level &level = levels_[i];
    const uint8_t *weights;
    size_t weights_length;
    if (!transform(string, length, level.flags, collation_->coll->strnxfrmlen(collation_, length), out, &weights,
                   &weights_length))
      return;
    uint8_t *start = out->reserve(0), *to = start;
    const uint8_t *end = weights + (weights_length & ~size_t{1});
    if (i == 0) count = weights_length / 2;
    if (level.ending == Ending::Zeros) {
      memcpy(to, weights, static_cast<size_t>(end - weights));
      to += end - weights;
      *to++ = 0;
      *to++ = 0;
    } else {
      size_t run = 0;
      for (; weights < end; weights += 2) {
        int order = memcmp(weights, level.space, 2);
        if (order == 0) {
          run++;
          continue;
        }
        if (run != 0) {
          memcpy(to, level.space, 2);
          to = put_run(to + 2, run, order > 0);
          run = 0;
        }
        *to++ = weights[0];
        *to++ = weights[1];
      }
      memcpy(to, level.space, 2);
      to[2] = END;
      to += 3;
    }
    out->advance(static_cast<size_t>(to - start));
  }
  if (counts_) {
    out->push(static_cast<uint8_t>(count >> 8));
    out->push(static_cast<uint8_t>(count));
  }
}

void StringCodec::encode_transformed(const uchar *string, size_t length, ByteBuffer *out) const {
  const uint8_t *weights;
  size_t weights_length;
  if (units_ == Units::FullWidth) {
    size_t width = length_max_;
    uint8_t *to = out->reserve(width);
    if (to == nullptr) return;
    size_t written = collation_->coll->strnxfrm(
        collation_, to, width,
        static_cast<uint>(bytes_max_ * (collation_->strxfrm_multiply ? collation_->strxfrm_multiply : 1)), string,
        length, MY_STRXFRM_PAD_WITH_SPACE | MY_STRXFRM_PAD_TO_MAXLEN);
    if (written < width) memset(to + written, 0, width - written);
    out->advance(width);
    return;
  }
  if (!transform(string, length, 0, length * 4, out, &weights, &weights_length)) return;
  uint8_t *start = out->reserve(0);
  if (units_ == Units::Transform) {
    out->advance(static_cast<size_t>(write_map<Ending::Spaces>(weights, weights + weights_length, start) - start));
    return;
  }
  const void *zero = memchr(weights, 0, weights_length);
  if (zero != nullptr) weights_length = static_cast<size_t>(static_cast<const uint8_t *>(zero) - weights);
  memcpy(start, weights, weights_length);
  start[weights_length] = 0;
  out->advance(weights_length + 1);
}

void StringCodec::encode(const uchar *string, size_t length, ByteBuffer *out) const {
  if (strip_) length = without_trailing_spaces(string, length);
  switch (units_) {
    case Units::Uca:
      encode_uca(string, length, out);
      return;
    case Units::Transform:
    case Units::ZeroEnded:
    case Units::FullWidth:
      encode_transformed(string, length, out);
      return;
    default:
      break;
  }
  uint8_t *start = out->reserve(length * 3 + 16);
  if (start == nullptr) return;
  const uchar *end = string + length;
  uint8_t *to =
      ending_ == Ending::Spaces ? write<Ending::Spaces>(string, end, start) : write<Ending::Zeros>(string, end, start);
  out->advance(static_cast<size_t>(to - start));
}

bool StringCodec::skip_level(const Level &level, const uint8_t *key, size_t length, uint8_t inverted,
                             size_t *used) const {
  const bool zeros = level.ending == Ending::Zeros;
  const uint8_t first = (zeros ? 0 : level.space[0]) ^ inverted, second = (zeros ? 0 : level.space[1]) ^ inverted;
  for (size_t at = 0; length - at >= 2; at += 2) {
    if (key[at] != first || key[at + 1] != second) continue;
    if (zeros) {
      *used = at + 2;
      return true;
    }
    at += 2;
    if (at == length) return false;
    uint8_t head = key[at] ^ inverted;
    if (head == END) {
      *used = at + 1;
      return true;
    }
    size_t tail;
    if (!run_tail(head, &tail) || length - at <= tail) return false;
    at += tail + 1 - 2;
  }
  return false;
}

bool StringCodec::skip(const uint8_t *key, size_t length, uint8_t inverted, size_t *used) const {
  if (length == 0 && units_ != Units::FullWidth) return false;
  switch (units_) {
    case Units::FullWidth:
      *used = length_max_;
      return length >= length_max_;
    case Units::ZeroEnded: {
      const void *zero = memchr(key, inverted, length);
      if (zero == nullptr) return false;
      *used = static_cast<size_t>(static_cast<const uint8_t *>(zero) - key) + 1;
      return true;
    }
    case Units::Uca: {
      size_t at = 0;
      for (unsigned i = 0; i < levels_count_; i++) {
        size_t level_used;
        if (!skip_level(levels_[i], key + at, length - at, inverted, &level_used)) return false;
        at += level_used;
      }
      if (counts_) {
        if (length - at < 2) return false;
        at += 2;
      }
      *used = at;
      return true;
    }
    default:
      break;
  }
  const bool zeros = ending_ == Ending::Zeros;
  const int mark = static_cast<uint8_t>((zeros ? 0 : space_) ^ inverted);
  const uint8_t *at = key, *end = key + length;
  while (at < end) {
    at = static_cast<const uint8_t *>(memchr(at, mark, static_cast<size_t>(end - at)));
    if (at == nullptr || end - at < 2) return false;
    uint8_t head = at[1] ^ inverted;
    if (head == (zeros ? 0 : END)) {
      *used = static_cast<size_t>(at + 2 - key);
      return true;
    }
    size_t tail = 0;
    if (zeros ? head != ESCAPED_ZERO : !run_tail(head, &tail)) return false;
    if (static_cast<size_t>(end - at) < 2 + tail) return false;
    at += 2 + tail;
  }
  return false;
}

bool StringCodec::decode(const uint8_t *key, size_t length, uint8_t inverted, uchar *to, size_t to_max,
                         size_t *to_length, size_t *used) const {
  if (!skip(key, length, inverted, used)) return false;
  const bool zeros = ending_ == Ending::Zeros, escapes = units_ != Units::Map;
  const uint8_t *at = key, *end = key + *used - 2;
  uchar *start = to, *limit = to + to_max;
  while (at < end) {
    uint8_t byte = *at++ ^ inverted;
    if (zeros ? byte == 0 : byte == space_) {
      if (zeros) {
        at++;  // skip() has checked the escape
      } else {
        size_t spaces, tail;
        if (!run_length(at, inverted, &spaces) || spaces > static_cast<size_t>(limit - to)) return false;
        run_tail(*at ^ inverted, &tail);
        memset(to, space_, spaces);
        to += spaces;
        at += 1 + tail;
        continue;
      }
    } else if (escapes && byte == BAD) {
      if (at == end) return false;
      byte = *at++ ^ inverted;
    }
    if (to == limit) return false;
    *to++ = byte;
  }
  *to_length = static_cast<size_t>(to - start);
  return true;
}

}  // namespace teak
