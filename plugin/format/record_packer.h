/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RecordPacker copies records of a table into a sequence of bytes that refers to nothing else, and back: of VARCHAR and BLOB
   columns only the bytes in use, and no columns that the codecs do not read. It has no pointer to a Field: it can be shared by
   threads. */

#ifndef TEAK_FORMAT_RECORD_PACKER_H
#define TEAK_FORMAT_RECORD_PACKER_H

#include <my_global.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/buffer.h"

struct TABLE;

namespace teak {

class RecordPacker {
 public:
  explicit RecordPacker(const TABLE &table);

  size_t record_bytes() const { return record_bytes_; }

  /* Appends a record of the table. Sets out->failed() when out of memory. */
  void pack(const uchar *record, ByteBuffer *out) const;
  /* Copies a packed record, which begins at `packed`, into a record. BLOB columns point into the packed one. Returns where the
     next one begins; nullptr: the bytes before `end` are not a packed record. */
  const uint8_t *unpack(const uint8_t *packed, const uint8_t *end, uchar *record) const;

 private:
  enum class Kind : uint8_t { Fixed, Variable, Blob };
  /* Bytes that are copied together. */
  struct Part {
    Kind kind;
    uint8_t length_bytes;  // before the bytes of a VARCHAR or the pointer of a BLOB
    uint8_t null_bit;      // 0: not nullable
    uint32_t null_offset;
    uint32_t offset;
    uint32_t length;  // of a VARCHAR: at most
  };
  void add_fixed(uint32_t offset, uint32_t length);

  std::vector<Part> parts_;
  size_t record_bytes_;
};

}  // namespace teak

#endif
