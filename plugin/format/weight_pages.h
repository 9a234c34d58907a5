/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* WeightPages: the 16-bit weight of every code point in one of the simple Unicode collations (general_ci and similar),
   computed once with the server's strnxfrm, because its tables are not accessible to plugins. */

#ifndef TEAK_FORMAT_WEIGHT_PAGES_H
#define TEAK_FORMAT_WEIGHT_PAGES_H

#include <my_global.h>

#include <m_ctype.h>

#include <cstdint>
#include <memory>

namespace teak {

struct WeightPages {
  static constexpr uint32_t REPLACEMENT = 0xFFFD;  // all characters beyond the basic plane have this weight

  struct Page {
    uint16_t weight[256];
  };
  std::unique_ptr<Page> pages[256];  // nullptr: each character is its own weight

  uint32_t of(uint32_t code) const {
    if (code > 0xFFFF) return REPLACEMENT;
    const Page *page = pages[code >> 8].get();
    return page == nullptr ? code : page->weight[code & 0xFF];
  }

  /* The weights of a collation, cached after the first call (which takes some milliseconds). */
  static std::shared_ptr<const WeightPages> learn(CHARSET_INFO *collation);
};

}  // namespace teak

#endif
