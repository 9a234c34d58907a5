/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* KeyOriginals: columns of a secondary key that cannot be decoded from its order-preserving encoding (texts of most
   collations, floating-point numbers), in the format of the row. They are stored in the entry's value, so that the
   key is covering. BLOB and TEXT columns and prefixes of columns are not stored. The byte format is specified in
   docs/design/format.md, 'Keys and rows'.

   Has no pointer to a Field or TABLE: it can be shared by threads and can outlive the TABLE it was created from. */

#ifndef TEAK_FORMAT_KEY_ORIGINALS_H
#define TEAK_FORMAT_KEY_ORIGINALS_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <string>
#include <vector>

#include "format/buffer.h"

struct TABLE;
struct TABLE_SHARE;

namespace teak {

struct KeyPart;

class KeyOriginals {
 public:
  /* *originals: nullptr when no column of the key is stored as an original, or the key is not supported (its codec
     reports that). False, with a message in *error, when out of memory; the caller must then fail, because it would
     write entries without their originals. */
  static bool create(const TABLE *table, uint key_number, std::unique_ptr<KeyOriginals> *originals, std::string *error);

  /* Whether one of the key's own parts is stored as an original. Can be called before the table is open, when the
     primary key is not known yet. Also true for such parts of the primary key, whose values are in the row. */
  static bool stores(const TABLE_SHARE *share, uint key_number, uint part_number);

  ~KeyOriginals();
  KeyOriginals(const KeyOriginals &) = delete;
  KeyOriginals &operator=(const KeyOriginals &) = delete;

  size_t count() const;
  uint column(size_t number) const;

  /* Appends the columns of a record. Sets out->failed() when out of memory. */
  void encode(const uchar *record, ByteBuffer *out) const;

  /* Writes the columns in `columns` into the record, including NULL bits. False when the bytes are malformed. */
  bool decode(const uint8_t *bytes, size_t length, uchar *record, const MY_BITMAP *columns) const;

 private:
  KeyOriginals();

  std::vector<KeyPart> parts_;
};

}  // namespace teak

#endif
