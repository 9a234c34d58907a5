/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The names of codecs in SQL. TokuDB's names are accepted, too; for some of them another codec stands in. */

#ifndef TEAK_BASE_COMPRESSION_H
#define TEAK_BASE_COMPRESSION_H

#include "base/server_version.h"

#include "base/core.h"

namespace teak {

/* The values of the option COMPRESSION of tables. */
extern TYPELIB compression_typelib;

/* The values of the option COMPRESSION of keys, as the server expects them: first that of the table. */
#define TEAK_KEY_COMPRESSIONS                                                                            \
  "inherited,none,lz4,zstd,zlib,snappy,lzma,TOKUDB_UNCOMPRESSED,TOKUDB_ZLIB,TOKUDB_QUICKLZ,TOKUDB_LZMA," \
  "TOKUDB_SNAPPY,TOKUDB_FAST,TOKUDB_SMALL,TOKUDB_DEFAULT"

/* The codec of a value, by its position in compression_typelib. */
teak_codec codec_of(uint compression);

/* Our name of a codec. */
const char *codec_name(teak_codec codec);

/* Adds a note if the value names a codec for which another one stands in. */
void note_compression(THD *thd, uint compression);

}  // namespace teak

#endif
