/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The core's C interface for C++. */

#ifndef TEAK_BASE_CORE_H
#define TEAK_BASE_CORE_H

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "teak_server.h"

namespace teak {

inline teak_slice slice_of(std::string_view bytes) {
  return {reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()};
}

}  // namespace teak

#endif
