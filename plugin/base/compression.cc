/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See compression.h. */

#include "base/compression.h"

#include "sql_class.h"

namespace teak {

namespace {

/* In the order of TEAK_KEY_COMPRESSIONS. The first ones are ours, in the order of the engine's numbers. */
const char *names[] = {"none",
                       "lz4",
                       "zstd",
                       "zlib",
                       "snappy",
                       "lzma",
                       "TOKUDB_UNCOMPRESSED",
                       "TOKUDB_ZLIB",
                       "TOKUDB_QUICKLZ",
                       "TOKUDB_LZMA",
                       "TOKUDB_SNAPPY",
                       "TOKUDB_FAST",
                       "TOKUDB_SMALL",
                       "TOKUDB_DEFAULT",
                       NullS};

struct Meaning {
  teak_codec codec;
  bool stands_in;  // for a codec that Teak does not have, or that is inferior
};

const Meaning meanings[] = {{TEAK_CODEC_NONE, false}, {TEAK_CODEC_LZ4, false},    {TEAK_CODEC_ZSTD, false},
                            {TEAK_CODEC_ZLIB, false}, {TEAK_CODEC_SNAPPY, false}, {TEAK_CODEC_LZMA, false},
                            {TEAK_CODEC_NONE, false}, {TEAK_CODEC_ZSTD, true},    {TEAK_CODEC_LZ4, true},
                            {TEAK_CODEC_LZMA, false}, {TEAK_CODEC_SNAPPY, false}, {TEAK_CODEC_LZ4, true},
                            {TEAK_CODEC_LZMA, false}, {TEAK_CODEC_ZSTD, true}};

static_assert(array_elements(names) == array_elements(meanings) + 1, "each name has a meaning");

}  // namespace

TYPELIB compression_typelib = typelib_of("codecs", names);

teak_codec codec_of(uint compression) {
  return compression < array_elements(meanings) ? meanings[compression].codec : TEAK_CODEC_DEFAULT;
}

const char *codec_name(teak_codec codec) {
  const auto number = static_cast<size_t>(codec) - TEAK_CODEC_NONE;
  return number < compression_typelib.count ? names[number] : "";
}

void note_compression(THD *thd, uint compression) {
  if (compression >= array_elements(meanings) || !meanings[compression].stands_in) return;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_ILLEGAL_HA_CREATE_OPTION, "COMPRESSION=%s: Teak uses %s",
                      names[compression], codec_name(meanings[compression].codec));
}

}  // namespace teak
