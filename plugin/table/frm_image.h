/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* FrmImage: the content of a table's .frm file, compressed, as the table's metadata stores it. */

#ifndef TEAK_TABLE_FRM_IMAGE_H
#define TEAK_TABLE_FRM_IMAGE_H

#include "base/server_version.h"

#include <vector>

#include "base/core.h"

namespace teak {

class FrmImage {
 public:
  bool empty() const { return raw_bytes_ == 0; }
  uint32_t raw_bytes() const { return raw_bytes_; }
  const std::vector<uint8_t> &stored() const { return stored_; }

  teak_status set(teak_slice image);
  void set_stored(uint32_t raw_bytes, teak_slice stored);
  /* Reads the .frm file of a table. `path` is without the extension. */
  teak_status read_file(const char *path);
  teak_status decompress(std::vector<uint8_t> *image) const;

 private:
  uint32_t raw_bytes_ = 0;  // before the compression
  std::vector<uint8_t> stored_;
};

}  // namespace teak

#endif
