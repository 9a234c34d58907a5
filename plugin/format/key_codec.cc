/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See key_codec.h. */

#include "format/key_codec.h"

#include <new>

#include "sql_class.h"

#include "table.h"

#include "format/column_kind.h"
#include "format/key_part.h"

namespace teak {

KeyCodec::KeyCodec() = default;
KeyCodec::~KeyCodec() = default;

namespace {

std::string in_key(const KEY &key, const std::string &reason) {
  return "key " + std::string(key.name.str, key.name.length) + ": " + reason;
}

}  // namespace

std::unique_ptr<KeyCodec> KeyCodec::create(const TABLE *table, uint key_number, const KeyCodec *primary,
                                           std::string *error) try {
  const KEY &key = table->key_info[key_number];
  std::unique_ptr<KeyCodec> codec(new KeyCodec);
  uint32_t image_offset = 0;
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    const KEY_PART_INFO &server_part = key.key_part[i];
    KeyPart part;
    std::string reason;
    if (!KeyPart::describe(server_part, table->field[server_part.fieldnr - 1], table->record[0], &part, &reason)) {
      *error = in_key(key, reason);
      return nullptr;
    }
    part.image_offset = image_offset;
    image_offset += server_part.store_length;
    codec->length_max_ += part.length_max();
    codec->nullable_ = codec->nullable_ || part.nullable;
    codec->parts_.push_back(std::move(part));
    codec->image_ends_.push_back(image_offset);
  }
  if (primary != nullptr) {
    codec->primary_varies_ = !primary->has_fixed_length();
    codec->place_suffix(key, image_offset, *primary);
  }
  return codec;
} catch (const std::bad_alloc &) {
  *error = "out of memory";
  return nullptr;
}

/* Finds the position of each suffix part in an extended key image. The image continues with those columns of the
   primary key that are not columns of this index; the entry continues with all columns of the primary key. */
void KeyCodec::place_suffix(const KEY &key, uint32_t image_offset, const KeyCodec &primary) {
  for (uint i = key.user_defined_key_parts; i < key.ext_key_parts; i++) {
    image_offset += key.key_part[i].store_length;
    image_ends_.push_back(image_offset);
  }
  for (const KeyPart &primary_part : primary.parts_) {
    uint i = 0;
    while (i < key.ext_key_parts && key.key_part[i].fieldnr != primary_part.column + 1) i++;
    /* The server does not extend a key that has a prefix of a column. It should not append a prefix part of the
       primary key either, but does so if the key contains enough of the other parts of the primary key, because it
       compares only the numbers of parts. */
    if (i == key.ext_key_parts || (i < parts_.size() && parts_[i].prefix)) return;
    KeyPart part = primary_part;
    part.image_whole = part.prefix && i < parts_.size();
    part.image_offset = i == 0 ? 0 : image_ends_[i - 1];
    /* Columns of the primary key are NOT NULL, so the image has no NULL byte for them. */
    suffix_.push_back(std::move(part));
    suffix_needs_.push_back(i + 1);
  }
}

std::unique_ptr<KeyCodec> KeyCodec::create_hidden() {
  std::unique_ptr<KeyCodec> codec(new (std::nothrow) KeyCodec);
  if (codec != nullptr) {
    codec->hidden_ = true;
    codec->length_max_ = HIDDEN_ROW_ID_BYTES;
  }
  return codec;
}

bool KeyCodec::part_decodable(const TABLE_SHARE *share, uint key_number, uint part_number) try {
  const KEY &key = share->key_info[key_number];
  if (part_number >= key.ext_key_parts) return false;
  const KEY_PART_INFO &server_part = key.key_part[part_number];
  if (server_part.fieldnr == 0) return false;
  KeyPart part;
  std::string error;
  return KeyPart::describe(server_part, share->field[server_part.fieldnr - 1], share->default_values, &part, &error) &&
         part.decodable;
} catch (const std::bad_alloc &) {
  return false;
}

void KeyCodec::encode_record(const uchar *record, ByteBuffer *out) const {
  for (const KeyPart &part : parts_) part.encode_record(record, out);
}

bool KeyCodec::has_null(const uchar *record) const {
  if (!nullable_) return false;
  for (const KeyPart &part : parts_)
    if (part.is_null(record)) return true;
  return false;
}

void KeyCodec::encode_parts(const uchar *server_key, size_t parts, ByteBuffer *out) const {
  size_t own = parts < parts_.size() ? parts : parts_.size();
  for (size_t i = 0; i < own; i++) parts_[i].encode_image(server_key + parts_[i].image_offset, out);
  if (own < parts_.size() || parts == own) return;
  for (size_t i = 0; i < suffix_.size() && suffix_needs_[i] <= parts; i++)
    suffix_[i].encode_image(server_key + suffix_[i].image_offset, out);
}

void KeyCodec::encode_prefix(const uchar *server_key, key_part_map parts, ByteBuffer *out) const {
  size_t count = 0;
  while (count < image_ends_.size() && (parts & 1) != 0) {
    count++;
    parts >>= 1;
  }
  encode_parts(server_key, count, out);
}

void KeyCodec::encode_image(const uchar *server_key, uint length, ByteBuffer *out) const {
  size_t count = 0;
  while (count < image_ends_.size() && image_ends_[count] <= length) count++;
  encode_parts(server_key, count, out);
}

bool KeyCodec::image_has_null(const uchar *server_key, key_part_map parts) const {
  if (!nullable_) return false;
  for (size_t i = 0; i < parts_.size() && (parts & 1) != 0; i++, parts >>= 1)
    if (parts_[i].nullable && server_key[parts_[i].image_offset] != 0) return true;
  return false;
}

void KeyCodec::append_primary(const uint8_t *primary, size_t length, ByteBuffer *out) const {
  out->append(primary, length);
  if (!primary_varies_) return;
  out->push(static_cast<uint8_t>(length >> 8));
  out->push(static_cast<uint8_t>(length));
}

bool KeyCodec::primary_length(const uint8_t *key, size_t length, size_t columns_length, size_t *primary_length) const {
  size_t rest = length - columns_length;
  if (primary_varies_) {
    if (rest < PRIMARY_LENGTH_BYTES) return false;
    rest -= PRIMARY_LENGTH_BYTES;
    const uint8_t *stored = key + columns_length + rest;
    if (rest != (static_cast<size_t>(stored[0]) << 8 | stored[1])) return false;
  }
  *primary_length = rest;
  return rest != 0;
}

bool KeyCodec::skip(const uint8_t *key, size_t length, size_t *columns_length) const {
  return skip_parts(key, length, parts(), columns_length);
}

bool KeyCodec::skip_parts(const uint8_t *key, size_t length, uint parts, size_t *parts_length) const {
  size_t at = 0;
  for (uint i = 0; i < parts && i < parts_.size(); i++) {
    size_t used;
    if (!parts_[i].skip(key + at, length - at, &used)) return false;
    at += used;
  }
  *parts_length = at;
  return true;
}

uint KeyCodec::parts() const { return static_cast<uint>(parts_.size()); }
uint KeyCodec::column(uint part) const { return parts_[part].column; }
bool KeyCodec::decodable(uint part) const { return part < parts_.size() && parts_[part].decodable; }

bool KeyCodec::has_fixed_length() const {
  for (const KeyPart &part : parts_)
    if (part.is_string() || part.nullable) return false;
  return true;
}

void KeyCodec::append_columns(std::vector<teak_column> *columns) const {
  if (hidden_) columns->push_back(big_endian_column(HIDDEN_ROW_ID_BYTES));
  for (const KeyPart &part : parts_) columns->push_back(big_endian_column(part.width));
}

std::optional<size_t> KeyCodec::integer_column(uint32_t column) const {
  if (!has_fixed_length()) return std::nullopt;
  for (size_t i = 0; i < parts_.size(); i++) {
    const KeyPart &part = parts_[i];
    const bool is_integer = part.form == KeyPart::Form::Integer || part.form == KeyPart::Form::Raw;
    if (part.column == column && is_integer && part.decodable && !part.nullable && part.inverted == 0) return i;
  }
  return std::nullopt;
}

bool KeyCodec::all_decodable() const {
  for (const KeyPart &part : parts_)
    if (!part.decodable) return false;
  return true;
}

bool KeyCodec::decode(const uint8_t *key, size_t length, uchar *record, const MY_BITMAP *columns) const {
  size_t at = 0;
  for (const KeyPart &part : parts_) {
    size_t used;
    bool wanted = part.decodable && (columns == nullptr || bitmap_is_set(columns, part.column));
    if (!(wanted ? part.decode(key + at, length - at, record, &used) : part.skip(key + at, length - at, &used)))
      return false;
    at += used;
  }
  return true;
}

}  // namespace teak
