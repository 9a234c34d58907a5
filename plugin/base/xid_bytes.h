/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* XidBytes: XIDs as byte strings, as the core stores them. */

#ifndef TEAK_BASE_XID_BYTES_H
#define TEAK_BASE_XID_BYTES_H

#include "base/server_version.h"

#include "base/core.h"

namespace teak {

/* Layout: format id (8 bytes), lengths of gtrid and bqual (1 byte each), gtrid, bqual. */
class XidBytes {
 public:
  /* The largest number of bytes. */
  static constexpr size_t BYTES_MAX = 10 + XIDDATASIZE;

  XidBytes() = default;
  explicit XidBytes(const XID &xid);
  teak_slice slice() const { return {bytes_, length_}; }

  /* Decodes an XID. False: the bytes are not a valid XID. */
  static bool parse(teak_slice bytes, XID *xid);

 private:
  static constexpr size_t HEADER_BYTES = BYTES_MAX - XIDDATASIZE;
  uint8_t bytes_[BYTES_MAX] = {};
  size_t length_ = 0;
};

}  // namespace teak

#endif
