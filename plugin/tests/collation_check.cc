/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Checks random strings of every collation: compares the codec's order with strnncollsp(), and checks round trips. */

#include <my_global.h>

#include <m_ctype.h>
#include <my_sys.h>

#include <algorithm>
#include <vector>

#include "format/string_codec.h"
#include "checks.h"

namespace teak_tests {

namespace {

using teak::ByteBuffer;
using teak::StringCodec;

/* Characters with special rules in collations: contractions, expansions, ignorable characters, marks, other planes. */
const my_wc_t SPECIAL[] = {0x00,   0x01,   0x09,   0x1F,   0x21,    0x7F,    0x80,    0xA0,    0xAD,    0xC4,   0xC6,
                           0xDF,   0xE1,   0xE4,   0xE6,   0xF1,    0x130,   0x131,   0x142,   0x152,   0x17F,  0x300,
                           0x301,  0x308,  0x3B1,  0x3C2,  0x3C3,   0x430,   0x451,   0x5D0,   0x627,   0x915,  0x94D,
                           0xE01,  0xE40,  0xE41,  0xE48,  0xE4C,   0xE31,   0x1E9E,  0x200B,  0x200D,  0x2028, 0x3000,
                           0x3042, 0x30A2, 0x30FC, 0x4E00, 0x4E01,  0x9FA5,  0xAC00,  0xD7A3,  0xE000,  0xFB03, 0xFDFA,
                           0xFF71, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1F600, 0x1D400, 0x20000, 0x10FFFF};
const char LETTERS[] = "aAbBcChHsSzZlLjJeEiIdDnNgGyY019'-";

class Strings {
 public:
  /* `malformed`: includes bytes that are not valid characters. */
  Strings(CHARSET_INFO *collation, Random *random, bool malformed)
      : collation_(collation), random_(random), malformed_(malformed) {}

  std::vector<uchar> make(uint32_t characters_max) {
    std::vector<uchar> string;
    uint32_t characters = random_->below(characters_max + 1);
    for (uint32_t i = 0; i < characters; i++) add_character(&string);
    return string;
  }

  std::vector<uchar> change(const std::vector<uchar> &original, uint32_t characters_max) {
    std::vector<uchar> string = original;
    switch (random_->below(6)) {
      case 0:
        for (uint32_t spaces = random_->below(4); spaces > 0; spaces--) add(&string, ' ');
        break;
      case 1:
        add_character(&string);
        break;
      case 2:
        cut(&string);
        break;
      case 3: {  // long runs of spaces in the middle
        uint32_t spaces = random_->below(2) != 0 ? random_->below(4) : 120 + random_->below(12);
        for (; spaces > 0; spaces--) add(&string, ' ');
        add_character(&string);
        break;
      }
      case 4: {
        std::vector<uchar> tail = make(characters_max / 2);
        cut(&string);
        string.insert(string.end(), tail.begin(), tail.end());
        break;
      }
      default:
        return make(characters_max);
    }
    return string;
  }

 private:
  void add(std::vector<uchar> *string, my_wc_t character) {
    uchar bytes[16];
    int length = collation_->wc_mb(character, bytes, bytes + sizeof bytes);
    if (length > 0)
      string->insert(string->end(), bytes, bytes + length);
    else
      add_bytes(string);
  }

  void cut(std::vector<uchar> *string) {
    size_t at = random_->below(static_cast<uint32_t>(string->size()) + 1);
    if (!malformed_)
      at = std::min(string->size(), collation_->charpos(string->data(), string->data() + string->size(), at));
    string->resize(at);
  }

  void add_bytes(std::vector<uchar> *string) {
    if (!malformed_) return;
    for (uint32_t i = 1 + random_->below(collation_->mbmaxlen); i > 0; i--)
      string->push_back(static_cast<uchar>(random_->below(256)));
  }

  void add_character(std::vector<uchar> *string) {
    uint32_t choice = random_->below(100);
    if (choice < 20)
      add(string, ' ');
    else if (choice < 60)
      add(string, static_cast<uchar>(LETTERS[random_->below(sizeof LETTERS - 1)]));
    else if (choice < 80)
      add(string, SPECIAL[random_->below(sizeof SPECIAL / sizeof *SPECIAL)]);
    else if (choice < 92)
      add(string, random_->below(0x10000));
    else
      add_bytes(string);
  }

  CHARSET_INFO *collation_;
  Random *random_;
  bool malformed_;
};

std::string describe(CHARSET_INFO *collation, const char *what, const std::vector<uchar> &a,
                     const std::vector<uchar> &b, int server, int codec, const ByteBuffer &a_key,
                     const ByteBuffer &b_key) {
  return std::string(collation->coll_name.str) + " " + what + ": " + hex(a.data(), a.size()) + " and " +
         hex(b.data(), b.size()) + " server " + std::to_string(server) + " codec " + std::to_string(codec) + " keys " +
         hex(a_key.data(), a_key.size()) + " " + hex(b_key.data(), b_key.size());
}

/* Checks that a truncated key is rejected, bytes after the key are ignored, and decoding restores the string. */
void check_round_trip(CHARSET_INFO *collation, const StringCodec &codec, const std::vector<uchar> &string, bool fixed,
                      const ByteBuffer &key, Random *random, Checks *checks) {
  for (uint8_t inverted : {uint8_t{0}, uint8_t{0xFF}}) {
    std::vector<uint8_t> bytes(key.data(), key.data() + key.size());
    for (uint8_t &byte : bytes) byte ^= inverted;
    size_t used = 0;
    bool whole = codec.skip(bytes.data(), bytes.size(), inverted, &used) && used == bytes.size();
    for (int i = 0; i < 5; i++) bytes.push_back(static_cast<uint8_t>(random->below(256)));
    whole = whole && codec.skip(bytes.data(), bytes.size(), inverted, &used) && used == key.size();
    if (key.size() > 0) {
      std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + random->below(static_cast<uint32_t>(key.size())));
      whole = whole && !codec.skip(cut.data(), cut.size(), inverted, &used);
    }
    checks->expect(whole, [&] {
      return std::string(collation->coll_name.str) + " skip: " + hex(string.data(), string.size()) + " key " +
             hex(key.data(), key.size());
    });
    if (!codec.decodable()) continue;
    std::vector<uchar> back(string.size() + 1, ' ');
    size_t length = 0;
    bool same = codec.decode(bytes.data(), bytes.size(), inverted, back.data(), string.size(), &length, &used) &&
                used == key.size() && length <= string.size() &&
                memcmp(back.data(), string.data(), string.size()) == 0 && (fixed || length == string.size());
    if (string.size() > 0 && length > 0) {
      size_t ignored;
      same = same && !codec.decode(bytes.data(), bytes.size(), inverted, back.data(), length - 1, &ignored, &used);
    }
    checks->expect(same, [&] {
      return std::string(collation->coll_name.str) + " decode: " + hex(string.data(), string.size()) + " key " +
             hex(key.data(), key.size());
    });
  }
}

/* A key with random changes is rejected or skipped, and not read beyond its end (a sanitizer detects such a read). */
void check_garbage(const StringCodec &codec, const ByteBuffer &key, Random *random, Checks *checks) {
  std::vector<uint8_t> bytes(key.data(), key.data() + key.size());
  for (uint32_t changes = 1 + random->below(3); changes > 0 && !bytes.empty(); changes--)
    bytes[random->below(static_cast<uint32_t>(bytes.size()))] = static_cast<uint8_t>(random->below(256));
  size_t used = 0, length = 0;
  bool inside = !codec.skip(bytes.data(), bytes.size(), 0, &used) || used <= bytes.size();
  if (codec.decodable()) {
    uchar to[64];
    codec.decode(bytes.data(), bytes.size(), 0, to, sizeof to, &length, &used);
    inside = inside && length <= sizeof to;
  }
  checks->expect(inside, [&] { return std::string("garbage"); });
}

std::vector<uchar> padded(CHARSET_INFO *collation, const std::vector<uchar> &string, size_t characters) {
  size_t cut = collation->charpos(string.data(), string.data() + string.size(), characters);
  std::vector<uchar> full(string.begin(),
                          string.begin() + static_cast<long>(cut < string.size() ? cut : string.size()));
  size_t length = full.size();
  full.resize(characters * collation->mbmaxlen);
  if (length < full.size()) collation->fill(reinterpret_cast<char *>(full.data()) + length, full.size() - length, ' ');
  return full;
}

/* The part of a CHAR that KeyPart passes to the codec. */
size_t counted(CHARSET_INFO *collation, const std::vector<uchar> &full, size_t characters) {
  size_t cut =
      collation->mbmaxlen > 1 ? collation->charpos(full.data(), full.data() + full.size(), characters) : full.size();
  return cut < full.size() ? cut : full.size();
}

void check_collation(CHARSET_INFO *collation, uint64_t seed, uint32_t pairs, Checks *checks) {
  constexpr size_t CHARACTERS = 12;
  Random random(seed ^ collation->number);
  Strings strings(collation, &random, true), well_formed(collation, &random, false);
  std::string error;
  auto variable = StringCodec::create(collation, StringCodec::Column::Variable, 1024, &error);
  auto fixed = StringCodec::create(collation, StringCodec::Column::Fixed, CHARACTERS * collation->mbmaxlen, &error);
  checks->expect(variable != nullptr && fixed != nullptr,
                 [&] { return std::string(collation->coll_name.str) + ": " + error; });
  if (variable == nullptr || fixed == nullptr) return;
  ByteBuffer a_key, b_key;
  for (uint32_t pair = 0; pair < pairs; pair++) {
    std::vector<uchar> a = strings.make(CHARACTERS), b = strings.change(a, CHARACTERS);
    a.reserve(1);
    b.reserve(1);
    a_key.clear(), b_key.clear();
    variable->encode(a.data(), a.size(), &a_key);
    variable->encode(b.data(), b.size(), &b_key);
    int server = sign(collation->strnncollsp(a.data(), a.size(), b.data(), b.size()));
    int codec = compare_bytes(a_key.data(), a_key.size(), b_key.data(), b_key.size());
    checks->expect(server == codec, [&] { return describe(collation, "VARCHAR", a, b, server, codec, a_key, b_key); });
    check_round_trip(collation, *variable, a, false, a_key, &random, checks);
    check_garbage(*variable, a_key, &random, checks);

    if (collation == &my_charset_bin) continue;  // a StringCodec does not encode BINARY
    if (collation->mbminlen > 1) {  // the server's functions disagree about the number of characters in malformed bytes
      a = well_formed.make(CHARACTERS);
      b = well_formed.change(a, CHARACTERS);
    }
    std::vector<uchar> a_full = padded(collation, a, CHARACTERS), b_full = padded(collation, b, CHARACTERS);
    a_key.clear(), b_key.clear();
    bool pads = (collation->state & MY_CS_NOPAD) == 0, cut = !pads || collation->mbminlen > 1;
    fixed->encode(a_full.data(), cut ? counted(collation, a_full, CHARACTERS) : a_full.size(), &a_key);
    fixed->encode(b_full.data(), cut ? counted(collation, b_full, CHARACTERS) : b_full.size(), &b_key);
    /* PAD SPACE strings are compared with strnncollsp(), as SQL compares them. strnncollsp_nchars(), without its flag
       for trimmed strings, ranks the end of a full string below a space if the string ends in characters without
       weight. */
    server = pads ? sign(collation->strnncollsp(a_full.data(), a_full.size(), b_full.data(), b_full.size()))
                  : sign(collation->coll->strnncollsp_nchars(collation, a_full.data(), a_full.size(), b_full.data(),
                                                             b_full.size(), CHARACTERS, 0));
    codec = compare_bytes(a_key.data(), a_key.size(), b_key.data(), b_key.size());
    checks->expect(server == codec,
                   [&] { return describe(collation, "CHAR", a_full, b_full, server, codec, a_key, b_key); });
    check_round_trip(collation, *fixed, a_full, true, a_key, &random, checks);
  }
}

}  // namespace

void check_collations(uint64_t seed, uint32_t pairs, Checks *checks) {
  constexpr uint NUMBERS = 4096;
  uint32_t seen = 0;
  for (uint number = 1; number < NUMBERS; number++) {
    CHARSET_INFO *collation = get_charset(number, MYF(0));
    if (collation == nullptr) continue;
    if (strcmp(collation->cs_name.str, "filename") == 0) continue;  // no column has it
    seen++;
    check_collation(collation, seed, pairs, checks);
  }
  checks->expect(seen > 100, [&] { return "only " + std::to_string(seen) + " collations"; });
}

}  // namespace teak_tests
