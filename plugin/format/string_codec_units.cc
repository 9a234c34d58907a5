/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Chooses the units of a collation (string_codec.h) from the server's CHARSET_INFO. The order to preserve is that of
   strnncollsp(), which key comparisons use, not of strnxfrm(), which differs from it for invalid bytes
   and, in big5, for all Chinese characters. */

#include "format/string_codec.h"
#include "format/weight_pages.h"

namespace teak {

namespace {

bool named(const LEX_CSTRING &name, const char *text) {
  return strlen(text) == name.length && memcmp(name.str, text, name.length) == 0;
}

bool mentions(const LEX_CSTRING &name, const char *text) {
  return std::string(name.str, name.length).find(text) != std::string::npos;
}

const char *const MULTIBYTE[] = {"sjis", "cp932", "ujis", "eucjpms", "big5", "gbk", "gb2312", "euckr"};

bool is_multibyte(CHARSET_INFO *collation) {
  for (const char *name : MULTIBYTE)
    if (named(collation->cs_name, name)) return true;
  return false;
}

}  // namespace

void StringCodec::learn_single_bytes() {
  const bool sorted = collation_->sort_order != nullptr && (collation_->state & MY_CS_BINSORT) == 0;
  identity_ = true;
  for (unsigned i = 0; i < 256; i++) {
    map_[i] = sorted ? collation_->sort_order[i] : static_cast<uint8_t>(i);
    identity_ = identity_ && map_[i] == i;
  }
  space_ = map_[' '];
}

/* Creates one entry per level of the collation, with the weight of a space on that level. */
bool StringCodec::choose_levels(Column column) {
  const bool pads = (collation_->state & MY_CS_NOPAD) == 0;
  const uint wanted = collation_->levels_for_order != 0 ? collation_->levels_for_order : 1;
  for (unsigned i = 0; i < 8 && wanted >> i != 0; i++) {
    if ((wanted >> i & 1) == 0) continue;
    if (levels_count_ == UCA_LEVELS_MAX) return false;
    Level &level = levels_[levels_count_++];
    level.flags = static_cast<uint>(MY_STRXFRM_LEVEL1) << i;
    /* NO PAD: for a VARCHAR the server pads all levels except the first; for a whole CHAR, which is already full of
       spaces, none. A prefix of a CHAR is padded on all levels, see string_codec.h. */
    level.ending =
        pads || column == Column::FixedPrefix || (i > 0 && column == Column::Variable) ? Ending::Spaces : Ending::Zeros;
    static const uchar spaces[4] = {0, 0, 0, ' '};  // big-endian in 1, 2 or 4 bytes
    uchar weight[8] = {}, space[8];
    size_t space_bytes = static_cast<size_t>(collation_->mbminlen);
    if (space_bytes > sizeof spaces) return false;
    memcpy(space, spaces + sizeof spaces - space_bytes, space_bytes);
    if (collation_->mbminlen > 1) {
      int bytes = collation_->wc_mb(' ', space, space + sizeof space);  // also correct for utf16le
      if (bytes <= 0) return false;
      space_bytes = static_cast<size_t>(bytes);
    }
    size_t written = collation_->coll->strnxfrm(collation_, weight, sizeof weight, 1, space, space_bytes, level.flags);
    if (written != 2) level.ending = Ending::Zeros;  // spaces have no weight: padding with them has no effect
    level.space[0] = weight[0];
    level.space[1] = weight[1];
  }
  counts_ = !pads && column == Column::FixedPrefix;
  return levels_count_ > 0;
}

bool StringCodec::choose_units(Column column, std::string *error) {
  const bool binary = (collation_->state & MY_CS_BINSORT) != 0, pads = (collation_->state & MY_CS_NOPAD) == 0;
  const bool utf8 = named(collation_->cs_name, "utf8mb4") || named(collation_->cs_name, "utf8mb3") ||
                    named(collation_->cs_name, "utf8");
  const bool general = mentions(collation_->coll_name, "_general_");
  /* A CHAR can be encoded as if padded with spaces in a NO PAD collation, too, because all its values have the same
     length. */
  ending_ = pads || column != Column::Variable ? Ending::Spaces : Ending::Zeros;
  strip_ = pads || column != Column::Variable;
  learn_single_bytes();
  four_bytes_ = collation_->mbmaxlen == 4;

  if (collation_ == &my_charset_bin) {
    units_ = Units::Map;
    ending_ = Ending::Zeros;
    strip_ = false;
    decodable_ = true;
  } else if (collation_->uca != nullptr) {
    units_ = Units::Uca;
    strip_ = pads && collation_->mbminlen == 1;
    if (!choose_levels(column)) {
      *error = "collation " + std::string(collation_->coll_name.str) + " has weights of an unknown form";
      return false;
    }
  } else if (collation_->mbminlen > 1) {
    units_ = binary ? Units::Wide : Units::WideGeneral;
    strip_ = false;
    space_ = ' ';
    if (!binary && !general) units_ = Units::FullWidth;
  } else if (utf8) {
    units_ = binary ? Units::Utf8Binary : general ? Units::Utf8General : Units::FullWidth;
    decodable_ = binary;
    space_ = ' ';
  } else if (is_multibyte(collation_)) {
    units_ = named(collation_->cs_name, "gbk") && !binary ? Units::MultibyteWeights : Units::Multibyte;
    decodable_ = binary;
    if (space_ != ' ') units_ = Units::FullWidth;
  } else if (collation_->mbmaxlen > 1) {
    units_ = Units::FullWidth;
  } else if (named(collation_->coll_name, "latin2_czech_cs") || named(collation_->coll_name, "cp1250_czech_cs")) {
    units_ = Units::ZeroEnded;
  } else if (named(collation_->cs_name, "tis620") && !binary) {
    /* strnxfrm moves tone marks after the trailing spaces, so the spaces are significant. */
    units_ = ending_ == Ending::Spaces ? Units::Transform : Units::ZeroEnded;
    strip_ = false;
  } else if (named(collation_->coll_name, "latin1_german2_ci")) {
    units_ = Units::Transform;
  } else if (binary || collation_->sort_order != nullptr) {
    units_ = Units::Map;
    decodable_ = binary;
  } else {
    units_ = Units::FullWidth;
  }
  if (units_ == Units::Transform) {
    for (unsigned i = 0; i < 256; i++) map_[i] = static_cast<uint8_t>(i);
    identity_ = true;
    space_ = ' ';
  }
  if (units_ == Units::Utf8General || units_ == Units::WideGeneral) {
    weights_ = WeightPages::learn(collation_);
    for (unsigned i = 0; i < 128; i++) {
      if (weights_->of(i) >= 0x80) units_ = Units::FullWidth;
      map_[i] = static_cast<uint8_t>(weights_->of(i));
    }
    if (map_[' '] != ' ') units_ = Units::FullWidth;
  }
  /* The key does not contain the trailing spaces of a VARCHAR. */
  decodable_ = decodable_ && (column != Column::Variable || ending_ == Ending::Zeros);
  return true;
}

std::shared_ptr<const StringCodec> StringCodec::create(CHARSET_INFO *collation, Column column, size_t bytes_max,
                                                       std::string *error) {
  auto codec = std::make_shared<StringCodec>();
  codec->collation_ = collation;
  codec->bytes_max_ = bytes_max;
  if (!codec->choose_units(column, error)) return nullptr;
  size_t characters_max = bytes_max / (collation->mbmaxlen ? collation->mbmaxlen : 1) + 1;
  switch (codec->units_) {
    case Units::Uca:
      codec->length_max_ =
          codec->levels_count_ * (characters_max * 24 * 3 + 3) + 2;  // at most 24 weights per character
      break;
    case Units::FullWidth:
      codec->length_max_ = collation->coll->strnxfrmlen(collation, bytes_max);
      break;
    case Units::ZeroEnded:
      codec->length_max_ = bytes_max * 4 + 5;
      break;
    default:
      codec->length_max_ = bytes_max * 3 + 16;
      break;
  }
  return codec;
}

}  // namespace teak
