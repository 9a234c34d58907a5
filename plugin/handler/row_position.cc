/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_position.h. */

#include "handler/row_position.h"

namespace teak {

uint RowPositions::length() const {
  const Share &share = *open_.share();
  return static_cast<uint>(share.hidden_primary() ? ROW_ID_BYTES : LENGTH_BYTES + share.primary().length_max());
}

bool RowPositions::fits(teak_slice primary) const {
  return open_.share()->hidden_primary() ? primary.len == KeyCodec::HIDDEN_ROW_ID_BYTES
                                         : primary.len + LENGTH_BYTES <= open_.server().ref_length;
}

void RowPositions::store(teak_slice primary, uchar *position) const {
  if (open_.share()->hidden_primary()) {
    memcpy(position, primary.data + KeyCodec::HIDDEN_ROW_ID_BYTES - ROW_ID_BYTES, ROW_ID_BYTES);
    return;
  }
  // The server compares, hashes and stores complete positions, so the bytes after the key must be constant.
  int2store(position, static_cast<uint16>(primary.len));
  memcpy(position + LENGTH_BYTES, primary.data, primary.len);
  bzero(position + LENGTH_BYTES + primary.len, open_.server().ref_length - LENGTH_BYTES - primary.len);
}

void RowPositions::store_of_record(const uchar *record, uchar *position) {
  if (open_.share()->hidden_primary()) {
    store(open_.row_id(), position);
    return;
  }
  key_.clear();
  open_.share()->primary().encode_record(record, &key_);
  if (key_.failed())
    bzero(position, open_.server().ref_length);  // finds no row
  else
    store(slice(key_), position);
}

teak_slice RowPositions::primary_of(const uchar *position, uint8_t (&row_id)[KeyCodec::HIDDEN_ROW_ID_BYTES]) const {
  if (!open_.share()->hidden_primary()) return {position + LENGTH_BYTES, uint2korr(position)};
  constexpr size_t HIGH_BYTES = KeyCodec::HIDDEN_ROW_ID_BYTES - ROW_ID_BYTES;
  bzero(row_id, HIGH_BYTES);
  memcpy(row_id + HIGH_BYTES, position, ROW_ID_BYTES);
  return {row_id, KeyCodec::HIDDEN_ROW_ID_BYTES};
}

int RowPositions::compare(const uchar *left, const uchar *right) const {
  if (open_.share()->hidden_primary()) return memcmp(left, right, ROW_ID_BYTES);
  const size_t left_length = uint2korr(left), right_length = uint2korr(right);
  const int order =
      memcmp(left + LENGTH_BYTES, right + LENGTH_BYTES, left_length < right_length ? left_length : right_length);
  return order != 0 ? order : left_length < right_length ? -1 : left_length > right_length;
}

}  // namespace teak
