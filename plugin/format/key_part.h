/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* KeyPart: describes how to read one column of an index from a record or a key image and how to encode it in a key.
   Plain data, filled when the table is opened; KeyCodec iterates over an array of them. */

#ifndef TEAK_FORMAT_KEY_PART_H
#define TEAK_FORMAT_KEY_PART_H

#include <my_global.h>

#include <my_base.h>

#include <memory>
#include <string>

#include "format/buffer.h"
#include "format/string_codec.h"

class Field;
struct st_key_part_info;

namespace teak {

struct KeyPart {
  enum class Form : uint8_t {
    Integer,  // little-endian in the record, 1, 2, 3, 4 or 8 bytes
    Float,    // 4 bytes
    Double,   // 8 bytes
    Raw,      // bytes that are compared with memcmp: DECIMAL, BINARY, INET6, times with fractions
    Bit,      // BIT: odd bits (the length modulo 8) among the NULL bits, then bytes
    Char,     // CHAR
    Varchar,  // VARCHAR, VARBINARY
    Blob,     // TEXT, BLOB, GEOMETRY
  };

  Form form = Form::Raw;
  bool nullable = false;
  bool decodable = false;
  bool prefix = false;       // a prefix of a longer column
  bool image_whole = false;  // a prefix, but the server's key image contains the whole column
  uint8_t inverted = 0;      // 0xFF: descending
  uint8_t null_bit = 0;
  uint8_t length_bytes = 0;  // Varchar: in the record; Blob: in front of the pointer
  uint8_t bit_length = 0;    // Bit: number of odd bits
  uint8_t bit_offset = 0;    // Bit: their offset in the byte
  uint32_t null_offset = 0;
  uint32_t bit_position = 0;     // Bit: byte of the record with the odd bits
  uint32_t offset = 0;           // in the record
  uint32_t width = 0;            // fixed width: bytes of the value in key and image; others: maximum bytes of the part
  uint32_t field_bytes_max = 0;  // maximum bytes of the column itself
  uint32_t characters_max = 0;   // the value is truncated to this many characters; 0: it is not truncated
  uint32_t column = 0;
  uint32_t image_offset = 0;  // in the server's key image
  uint64_t sign = 0;          // Integer: XORed before writing
  CHARSET_INFO *collation = nullptr;
  std::shared_ptr<const StringCodec> string;

  bool is_null(const uchar *record) const { return nullable && (record[null_offset] & null_bit) != 0; }
  bool is_string() const { return form >= Form::Char; }
  size_t length_max() const { return (nullable ? 1 : 0) + (is_string() ? string->length_max() : width); }

  /* Appends the NULL marker and the value. */
  void encode_record(const uchar *record, ByteBuffer *out) const;
  void encode_image(const uchar *image, ByteBuffer *out) const;

  /* Determines the length of the part at the start of `key`. False if it is malformed. */
  bool skip(const uint8_t *key, size_t length, size_t *used) const;

  /* Writes the column into the record; for decodable parts only. */
  bool decode(const uint8_t *key, size_t length, uchar *record, size_t *used) const;

  /* Describes a key part of a column. `field` is the whole column's field in `record`. False with a message in
     *error when the type is not supported. */
  static bool describe(const st_key_part_info &server_part, const Field *field, const uchar *record, KeyPart *part,
                       std::string *error);

 private:
  void encode_value(const uchar *value, ByteBuffer *out) const;
  void encode_string(const uchar *string, size_t length, bool whole, ByteBuffer *out) const;
  bool decode_value(const uint8_t *key, uchar *record) const;
  bool decode_string(const uint8_t *key, size_t length, uchar *record, size_t *used) const;
};

}  // namespace teak

#endif
