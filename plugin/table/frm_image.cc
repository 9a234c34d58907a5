/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See frm_image.h. */

#include "table/frm_image.h"

#include <new>

#include "discover.h"

namespace teak {

namespace {

/* Receives the bytes of a call of the core. */
struct Receiver {
  std::vector<uint8_t> *bytes;
  bool is_out_of_memory = false;

  static void receive(void *context, teak_slice bytes) {
    auto *self = static_cast<Receiver *>(context);
    try {
      self->bytes->assign(bytes.data, bytes.data + bytes.len);
    } catch (const std::bad_alloc &) {
      self->is_out_of_memory = true;
    }
  }
  teak_status outcome(teak_status status) const { return is_out_of_memory ? TEAK_OUT_OF_MEMORY : status; }
};

}  // namespace

teak_status FrmImage::set(teak_slice image) {
  Receiver receiver = {&stored_};
  raw_bytes_ = static_cast<uint32_t>(image.len);
  return receiver.outcome(teak_metadata_compress(image, Receiver::receive, &receiver));
}

void FrmImage::set_stored(uint32_t raw_bytes, teak_slice stored) {
  raw_bytes_ = raw_bytes;
  stored_.assign(stored.data, stored.data + stored.len);
}

teak_status FrmImage::read_file(const char *path) {
  const uchar *image = nullptr;
  size_t bytes = 0;
  if (readfrm(path, &image, &bytes) != 0) return TEAK_IO;
  const teak_status status = set({image, bytes});
  my_free(const_cast<uchar *>(image));
  return status;
}

teak_status FrmImage::decompress(std::vector<uint8_t> *image) const {
  Receiver receiver = {image};
  const teak_slice stored = {stored_.data(), stored_.size()};
  return receiver.outcome(teak_metadata_decompress(stored, raw_bytes_, Receiver::receive, &receiver));
}

}  // namespace teak
