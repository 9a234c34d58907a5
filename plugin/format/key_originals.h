/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* KeyOriginals: the columns of a secondary key that its order does not give back (texts of most collations, floating-point
   numbers), as they are in the row. They stand in the entry's value, so that a key covers what the server reads from it.
   The byte format stands in docs/file_format.md, 'Keys and rows'.

   Holds no Field and no TABLE: once built it may be shared by threads and outlive the TABLE it was made from. */

#ifndef TEAK_FORMAT_KEY_ORIGINALS_H
#define TEAK_FORMAT_KEY_ORIGINALS_H

#include <my_global.h>

#include <my_base.h>
#include <my_bitmap.h>

#include <memory>
#include <vector>

#include "format/buffer.h"

struct TABLE;
struct TABLE_SHARE;

namespace teak {

struct KeyPart;

class KeyOriginals {
 public:
  /* nullptr when the key gives all of its columns back, or cannot be described (which its codec says better). */
  static std::unique_ptr<KeyOriginals> create(const TABLE *table, uint key_number);

  /* Whether one of the key's own parts is among them, asked before there is a table, when nobody knows which key is the primary
     one: of that the row gives the same parts back. */
  static bool keeps(const TABLE_SHARE *share, uint key_number, uint part_number);

  ~KeyOriginals();
  KeyOriginals(const KeyOriginals &) = delete;
  KeyOriginals &operator=(const KeyOriginals &) = delete;

  size_t count() const;
  uint column(size_t number) const;

  /* Appends the columns of a record. When memory runs out out->failed() is set. */
  void encode(const uchar *record, ByteBuffer *out) const;

  /* Writes those columns that are in `columns` into the record, NULL bits included. False when the bytes are malformed. */
  bool decode(const uint8_t *bytes, size_t length, uchar *record, const MY_BITMAP *columns) const;

 private:
  KeyOriginals();

  std::vector<KeyPart> parts_;
};

}  // namespace teak

#endif
