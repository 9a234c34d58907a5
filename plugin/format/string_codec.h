/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* StringCodec encodes strings of one collation as bytes whose memcmp order is the collation's order, and decodes them where
   the encoding is lossless. It is the part of KeyCodec that handles collations; it does not handle records.

   A string becomes a sequence of weights ('units'), which is written as follows.

   PAD SPACE collations compare as if an infinite sequence of spaces followed each string. A unit other than the space
   is written unchanged. A sequence of `n` spaces is written as the space unit and one of the codes below, which depends
   on the next unit, so that memcmp gives the same order as a comparison unit by unit:
       n          next unit < space, n in 1..126       (a longer sequence sorts later)
       127, u32   the same with n >= 127, big-endian
       128        only spaces follow: the end. Trailing spaces themselves are not written
       129, u32   next unit > space, n >= 126, all bits of the u32 inverted
       256-1-n    next unit > space, n in 1..125
   Every string ends in [space][128].

   NO PAD collations: byte units write 0x00 as 0x00 0xFF and end in 0x00 0x00; the two-byte weights of UCA collations
   are never 0, so they are written unchanged and followed by 0x0000.

   A prefix of a NO PAD CHAR under UCA: a prefix whose last characters have no weight is a shorter sequence than a
   prefix of the same number of characters with weights, although the characters that were cut off may have weights. The server's
   ranges require that prefixes of ordered values are ordered, so such prefixes are padded with spaces, as the whole CHAR was;
   then two bytes with the number of weights distinguish prefixes that only the padding makes equal.

   The units, by kind of collation:
       one byte per character            sort_order[c], or c itself
       utf8mb3, utf8mb4 _bin             the character's own bytes
       utf8mb3, utf8mb4 _general_        the 16-bit weight, in UTF-8 form (Latin letters stay one byte)
       ucs2, utf16, utf16le, utf32       the code point or the weight, in UTF-8 form
       sjis, cp932, ujis, eucjpms, big5, gb2312, euckr, gbk_bin    a weight byte, or the bytes of the character
       gbk_chinese                       a weight byte, or the 16-bit weight in UTF-8 form
       UCA                               16-bit weights by strnxfrm; level after level, each terminated
       german2, tis620                   bytes by strnxfrm
       the two Czech collations, tis620 nopad  bytes by strnxfrm, none of them 0, terminated by 0x00
       all others                        strnxfrm's weights, padded to the column's full width
   A byte that is not part of a valid character sorts after every character: 0xFF and the byte (in ucs2, utf16 and utf32, where
   such bytes can have any value, 0xFF and two bytes of four bits each with the highest bit set). */

#ifndef TEAK_FORMAT_STRING_CODEC_H
#define TEAK_FORMAT_STRING_CODEC_H

#include <my_global.h>

#include <m_ctype.h>

#include <memory>
#include <string>

#include "format/buffer.h"

namespace teak {

struct WeightPages;

class StringCodec {
 public:
  enum class Column { Fixed, FixedPrefix, Variable };  // CHAR; a prefix of a CHAR; VARCHAR and TEXT

  /* Creates the codec for a column (or a prefix of a column) of at most `bytes_max` bytes. nullptr with a message in
     *error when the collation is not supported. */
  static std::shared_ptr<const StringCodec> create(CHARSET_INFO *collation, Column column, size_t bytes_max,
                                                   std::string *error);

  /* Appends the encoding. For a fixed column, the string has the column's full width, or the characters of the key
     part. */
  void encode(const uchar *string, size_t length, ByteBuffer *out) const;

  /* Length of the encoding at the start of these bytes, which were XORed with `inverted` (0 or 0xFF).
     False when they are malformed. */
  bool skip(const uint8_t *key, size_t length, uint8_t inverted, size_t *used) const;

  /* Whether decode() restores the original bytes (except a fixed column's trailing padding, which the caller restores). */
  bool decodable() const { return decodable_; }

  /* Writes the string to `to`. False when the bytes are malformed or the string is longer than `to_max` bytes. */
  bool decode(const uint8_t *key, size_t length, uint8_t inverted, uchar *to, size_t to_max, size_t *to_length,
              size_t *used) const;

  size_t length_max() const { return length_max_; }

 private:
  enum class Units : uint8_t {
    Map,
    Utf8Binary,
    Utf8General,
    Wide,
    WideGeneral,
    Multibyte,
    MultibyteWeights,
    Uca,
    Transform,
    ZeroEnded,
    FullWidth
  };
  enum class Ending : uint8_t { Spaces, Zeros };
  static constexpr unsigned UCA_LEVELS_MAX = 4;
  struct Level {
    uint flags;
    Ending ending;
    uint8_t space[2];
  };

  bool choose_units(Column column, std::string *error);
  bool choose_levels(Column column);
  void learn_single_bytes();
  template <Ending E> uint8_t *write_map(const uchar *from, const uchar *end, uint8_t *to) const;
  template <Ending E> uint8_t *write_utf8(const uchar *from, const uchar *end, uint8_t *to) const;
  template <Ending E> uint8_t *write_wide(const uchar *from, const uchar *end, uint8_t *to) const;
  template <Ending E> uint8_t *write_multibyte(const uchar *from, const uchar *end, uint8_t *to) const;
  template <Ending E> uint8_t *write(const uchar *from, const uchar *end, uint8_t *to) const;
  bool transform(const uchar *string, size_t length, uint flags, size_t weights_max, ByteBuffer *out,
                 const uint8_t **weights, size_t *weights_length) const;
  void encode_uca(const uchar *string, size_t length, ByteBuffer *out) const;
  void encode_transformed(const uchar *string, size_t length, ByteBuffer *out) const;
  bool skip_level(const Level &level, const uint8_t *key, size_t length, uint8_t inverted, size_t *used) const;

  CHARSET_INFO *collation_ = nullptr;
  std::shared_ptr<const WeightPages> weights_;
  size_t bytes_max_ = 0;
  size_t length_max_ = 0;
  Units units_ = Units::Map;
  Ending ending_ = Ending::Spaces;
  bool identity_ = false;    // map_ changes nothing
  bool strip_ = false;       // trailing spaces can be removed first
  bool four_bytes_ = false;  // utf8mb4
  bool decodable_ = false;
  bool counts_ = false;  // the number of weights follows the levels
  uint8_t space_ = ' ';
  unsigned levels_count_ = 0;
  Level levels_[UCA_LEVELS_MAX] = {};
  uint8_t map_[256] = {};
};

}  // namespace teak

#endif
