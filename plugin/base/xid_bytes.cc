/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See xid_bytes.h. */

#include "base/xid_bytes.h"

#include <algorithm>

namespace teak {

XidBytes::XidBytes(const XID &xid) {
  int8store(bytes_, static_cast<ulonglong>(xid.formatID));
  bytes_[8] = static_cast<uint8_t>(xid.gtrid_length);
  bytes_[9] = static_cast<uint8_t>(xid.bqual_length);
  const size_t parts = std::min<size_t>(bytes_[8] + bytes_[9], XIDDATASIZE);
  memcpy(bytes_ + HEADER_BYTES, xid.data, parts);
  length_ = HEADER_BYTES + parts;
}

bool XidBytes::parse(teak_slice bytes, XID *xid) {
  if (bytes.len < HEADER_BYTES || bytes.len > HEADER_BYTES + XIDDATASIZE) return false;
  if (bytes.len != size_t{HEADER_BYTES} + bytes.data[8] + bytes.data[9]) return false;
  xid->formatID = static_cast<long>(sint8korr(bytes.data));
  xid->gtrid_length = bytes.data[8];
  xid->bqual_length = bytes.data[9];
  memcpy(xid->data, bytes.data + HEADER_BYTES, bytes.len - HEADER_BYTES);
  return true;
}

}  // namespace teak
