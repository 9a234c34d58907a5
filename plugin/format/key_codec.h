/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* KeyCodec turns the columns of one index into a byte string whose memcmp order is the server's order of that index,
   and back where the encoding loses nothing. It knows records and the server's key images; it does not know rows'
   values (row_codec.h), write ids or the tree. The byte format stands in docs/file_format.md, 'Keys and rows'.

   The encoding of each part ends itself, so no encoded key is a proper prefix of another of the same index, and the
   encoding of the leading parts is a prefix of every entry that agrees in them: an exact or prefix lookup is a scan of
   the keys that start with encode_prefix().

   A codec holds no Field and no TABLE: once built it may be shared by threads and outlive the TABLE it was made from. */

#ifndef TEAK_FORMAT_KEY_CODEC_H
#define TEAK_FORMAT_KEY_CODEC_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "format/buffer.h"

struct TABLE;
struct TABLE_SHARE;
struct st_key;

namespace teak {

struct KeyPart;

class KeyCodec {
 public:
  static constexpr size_t HIDDEN_ROW_ID_BYTES = 8;

  /* The codec of table->key_info[key_number]. `primary` is the codec of the table's primary key, or the hidden one, when
     this is a secondary key; nullptr for the primary key itself. It is read during this call only.
     nullptr with a sentence in *error when a part has a form that cannot be served. */
  static std::unique_ptr<KeyCodec> create(const TABLE *table, uint key_number, const KeyCodec *primary,
                                          std::string *error);

  /* The primary codec of a table without a primary key: an 8-byte big-endian row id, no columns. */
  static std::unique_ptr<KeyCodec> create_hidden();

  /* decodable() for index_flags(), which the server asks before there is a table; counts the parts of the extended key. */
  static bool part_decodable(const TABLE_SHARE *share, uint key_number, uint part_number);

  ~KeyCodec();
  KeyCodec(const KeyCodec &) = delete;
  KeyCodec &operator=(const KeyCodec &) = delete;

  /* Appends the key of a record (any buffer in the layout of table->record[0]); the columns of this index only, no suffix.
     Nothing for the hidden codec. When memory runs out out->failed() is set. */
  void encode_record(const uchar *record, ByteBuffer *out) const;

  /* Whether a column of this index is NULL in the record: such an entry of a unique key does not clash with any. */
  bool has_null(const uchar *record) const;

  /* Appends the encoding of the leading parts of a key image as the server gives it to index_read_map() (key_copy()'s
     format). `parts` is a run of low bits, HA_WHOLE_KEY allowed. Parts beyond this index's own (extended keys) continue
     with the columns of the primary key as they stand in the suffix of the entry. */
  void encode_prefix(const uchar *server_key, key_part_map parts, ByteBuffer *out) const;

  /* The same for an image of `length` bytes: as many whole parts as it covers. */
  void encode_image(const uchar *server_key, uint length, ByteBuffer *out) const;

  /* Whether one of these leading parts of the image, within this index's own, is NULL. */
  bool image_has_null(const uchar *server_key, key_part_map parts) const;

  /* The length of the encoded columns, after which a secondary entry carries the encoded primary key.
     False when the bytes are not a key of this index. */
  bool skip(const uint8_t *key, size_t length, size_t *columns_length) const;

  /* The same of the first `parts` parts only. */
  bool skip_parts(const uint8_t *key, size_t length, uint parts, size_t *parts_length) const;

  /* Number of this index's own parts (0 for the hidden codec), and the column each is of. */
  uint parts() const;
  uint column(uint part) const;

  /* Whether the part holds the whole column and gives its value back byte for byte. */
  bool decodable(uint part) const;
  bool all_decodable() const;

  /* Writes the decodable columns that are in `columns` (nullptr: all) into the record, NULL bits included. Other parts are
     skipped. Bytes after the columns are not looked at. Virtual columns are in no row: what reads through an index takes
     them from the entry, above all under HA_EXTRA_KEYREAD, where the server does not compute them. False when the bytes are not a key of this index; the record may
     then be half written. VARBINARY/VARCHAR are written in place; BLOB parts are never decodable. */
  bool decode(const uint8_t *key, size_t length, uchar *record, const MY_BITMAP *columns) const;

  bool hidden() const { return hidden_; }

  /* No encoded key (columns only) is longer. A bound, not a guess: many times the usual length for UCA collations. */
  size_t length_max() const { return length_max_; }

 private:
  KeyCodec();
  void place_suffix(const st_key &key, uint32_t image_offset, const KeyCodec &primary);
  void encode_parts(const uchar *server_key, size_t parts, ByteBuffer *out) const;

  std::vector<KeyPart> parts_;
  std::vector<KeyPart> suffix_;         // the primary key's parts, placed in this index's extended key image
  std::vector<uint32_t> suffix_needs_;  // how many parts of that image each of them needs
  std::vector<uint32_t> image_ends_;    // where each part of that image ends
  size_t length_max_ = 0;
  bool hidden_ = false;
  bool nullable_ = false;
};

}  // namespace teak

#endif
