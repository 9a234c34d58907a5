/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Entries of secondary keys. Specified in docs/design/format.md, 'Keys and rows'. */

#ifndef TEAK_FORMAT_ENTRY_CODEC_H
#define TEAK_FORMAT_ENTRY_CODEC_H

#include "format/buffer.h"
#include "format/clustering_value.h"
#include "format/key_codec.h"
#include "format/key_originals.h"

namespace teak {

/* What the encoding of a secondary key depends on. */
struct EntryForm {
  const KeyCodec &codec;
  const KeyOriginals *originals;
  bool clustering, unique, nullable;
};

/* A row: its record, the encoded primary key, and the encoded value for clustering keys. */
struct EntryRow {
  const uchar *record;
  teak_slice primary, value;
};

/* Encodes the entry of a row, over the buffers. Returns whether it must be the only one with its key. The value of a
   unique entry without originals is the primary key: it is left empty. */
inline bool encode_entry(const EntryForm &form, const EntryRow &row, ByteBuffer *key, ByteBuffer *value) {
  key->clear();
  form.codec.encode_record(row.record, key);
  const bool unique = form.unique && !(form.nullable && form.codec.has_null(row.record));
  if (!unique) form.codec.append_primary(row.primary.data, row.primary.len, key);
  value->clear();
  if (form.clustering) {
    append_clustering_value(row.value, unique ? row.primary : teak_slice{row.primary.data, 0}, value);
  } else if (form.originals != nullptr) {
    if (unique) value->append(row.primary.data, row.primary.len);
    form.originals->encode(row.record, value);
  }
  return unique;
}

}  // namespace teak

#endif
