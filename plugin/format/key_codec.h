/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* KeyCodec encodes the columns of one index as a byte string whose memcmp order is the server's order of that index,
   and decodes it where the encoding is lossless. It handles records and the server's key images; it does not handle row
   values (row_codec.h), write ids or the tree. The byte format is specified in docs/design/format.md, 'Keys and rows'.

   The encoding of each part is self-delimiting, so no encoded key is a proper prefix of another of the same index, and the
   encoding of leading parts is a prefix of every entry with equal parts: an exact or prefix look-up is a scan of
   the keys that start with encode_prefix().

   A codec has no pointer to a Field or TABLE: it can be shared by threads and can outlive the TABLE it was created
   from. */

#ifndef TEAK_FORMAT_KEY_CODEC_H
#define TEAK_FORMAT_KEY_CODEC_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core.h"
#include "format/buffer.h"

struct TABLE;
struct TABLE_SHARE;
struct st_key;

namespace teak {

struct KeyPart;

class KeyCodec {
 public:
  static constexpr size_t HIDDEN_ROW_ID_BYTES = 8;
  /* Length of the number behind a primary key of variable length, see append_primary(). */
  static constexpr size_t PRIMARY_LENGTH_BYTES = 2;

  /* The codec of table->key_info[key_number]. For a secondary key `primary` is the codec of the table's primary key,
     or the hidden one; for the primary key itself it is nullptr. `primary` is used only during this call. Returns
     nullptr with a message in *error when a part's type is not supported. */
  static std::unique_ptr<KeyCodec> create(const TABLE *table, uint key_number, const KeyCodec *primary,
                                          std::string *error);

  /* The primary codec of a table without a primary key: an 8-byte big-endian row id, no columns. */
  static std::unique_ptr<KeyCodec> create_hidden();

  /* Like decodable(), for index_flags(), which the server calls before the table is open. `part_number` may be that
     of a part of the extended key. */
  static bool part_decodable(const TABLE_SHARE *share, uint key_number, uint part_number);

  ~KeyCodec();
  KeyCodec(const KeyCodec &) = delete;
  KeyCodec &operator=(const KeyCodec &) = delete;

  /* Appends the key of a record (any buffer in the layout of table->record[0]): the columns of this index only, no suffix.
     Appends nothing for the hidden codec. Sets out->failed() when out of memory. */
  void encode_record(const uchar *record, ByteBuffer *out) const;

  /* Whether a column of this index is NULL in the record: such an entry of a unique key never conflicts. */
  bool has_null(const uchar *record) const;

  /* Appends the encoding of the leading parts of a key image, as passed to index_read_map() (the format of
     key_copy()). `parts` has consecutive low bits set; HA_WHOLE_KEY is allowed. Parts beyond this index's own
     (extended keys) are the columns of the primary key, in the order of the entry's suffix. */
  void encode_prefix(const uchar *server_key, key_part_map parts, ByteBuffer *out) const;

  /* The same for an image of `length` bytes: appends all parts that are completely in the image. */
  void encode_image(const uchar *server_key, uint length, ByteBuffer *out) const;

  /* Whether one of the leading `parts` of the image is NULL. Considers only this index's own parts. */
  bool image_has_null(const uchar *server_key, key_part_map parts) const;

  /* Appends the encoded primary key to the columns of a secondary entry. If primary keys have different lengths, its
     length follows, so that the engine finds the end of the columns. */
  void append_primary(const uint8_t *primary, size_t length, ByteBuffer *out) const;

  /* The length of the primary key that append_primary() has appended to the columns, which end at `columns_length`.
     False when the bytes are not a key of this index. */
  bool primary_length(const uint8_t *key, size_t length, size_t columns_length, size_t *primary_length) const;

  /* The length of the encoded columns; in a secondary entry the encoded primary key follows.
     False when the bytes are not a key of this index. */
  bool skip(const uint8_t *key, size_t length, size_t *columns_length) const;

  /* The same for the first `parts` parts only. */
  bool skip_parts(const uint8_t *key, size_t length, uint parts, size_t *parts_length) const;

  /* Number of this index's own parts (0 for the hidden codec), and their columns. */
  uint parts() const;
  uint column(uint part) const;

  /* Whether the part contains the whole column and decodes to the same bytes. */
  bool decodable(uint part) const;
  bool all_decodable() const;

  /* Writes the decodable columns in `columns` (nullptr: all) into the record, including NULL bits. Other parts are
     skipped; bytes after the columns are ignored. Virtual columns are not stored in rows: reads through an index take
     them from the entry, in particular under HA_EXTRA_KEYREAD, where the server does not compute them. False when the
     bytes are not a key of this index; the record may then be partly written. VARBINARY and VARCHAR are written in place;
     BLOB parts are never decodable. */
  bool decode(const uint8_t *key, size_t length, uchar *record, const MY_BITMAP *columns) const;

  bool hidden() const { return hidden_; }

  /* Maximum length of an encoded key (columns only); for UCA collations, many times the typical length. */
  size_t length_max() const { return length_max_; }

  /* Whether all encoded keys have the maximum length. */
  bool has_fixed_length() const;
  /* Appends the columns of the encoded keys, without those of the primary key in a secondary entry. Only if they have a fixed
     length. */
  void append_columns(std::vector<teak_column> *columns) const;
  /* The number of a column among those of append_columns(), if keys contain its value as bytes that order like an unsigned
     integer: big-endian, with the inverted sign if it is signed. Not for floats and strings, descending parts, and keys without a
     fixed length. */
  std::optional<size_t> integer_column(uint32_t column) const;
  /* In a secondary index: whether append_primary() also appends the length of the primary key. */
  bool primary_varies() const { return primary_varies_; }

 private:
  KeyCodec();
  void place_suffix(const st_key &key, uint32_t image_offset, const KeyCodec &primary);
  void encode_parts(const uchar *server_key, size_t parts, ByteBuffer *out) const;

  std::vector<KeyPart> parts_;
  std::vector<KeyPart> suffix_;         // the primary key's parts, in this index's extended key image
  std::vector<uint32_t> suffix_needs_;  // number of image parts that each suffix part requires
  std::vector<uint32_t> image_ends_;    // where each part of the extended key image ends
  size_t length_max_ = 0;
  bool hidden_ = false;
  bool nullable_ = false;
  bool primary_varies_ = false;  // primary keys have different lengths
};

}  // namespace teak

#endif
