/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See weight_pages.h. */

#include "format/weight_pages.h"

#include <map>
#include <mutex>

namespace teak {

std::shared_ptr<const WeightPages> WeightPages::learn(CHARSET_INFO *collation) {
  static std::mutex mutex;
  static std::map<CHARSET_INFO *, std::shared_ptr<const WeightPages>> known;
  std::lock_guard<std::mutex> guard(mutex);
  std::shared_ptr<const WeightPages> &entry = known[collation];
  if (entry != nullptr) return entry;
  auto weights = std::make_shared<WeightPages>();
  for (uint32_t page = 0; page < 256; page++) {
    auto learnt = std::make_unique<Page>();
    bool identity = true;
    for (uint32_t low = 0; low < 256; low++) {
      uint32_t code = page << 8 | low, weight = code;
      uchar character[8], sort_key[8];
      int bytes = collation->wc_mb(code, character, character + sizeof character);
      if (bytes > 0 && collation->coll->strnxfrm(collation, sort_key, sizeof sort_key, 1, character,
                                                 static_cast<size_t>(bytes), 0) == 2)
        weight = static_cast<uint32_t>(sort_key[0]) << 8 | sort_key[1];
      learnt->weight[low] = static_cast<uint16_t>(weight);
      identity = identity && weight == code;
    }
    if (!identity) weights->pages[page] = std::move(learnt);
  }
  entry = weights;
  return entry;
}

}  // namespace teak
