/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* CountedMemory: memory of an object of the plugin that the engine's memory budget includes, as long as this exists. */

#ifndef TEAK_BASE_COUNTED_MEMORY_H
#define TEAK_BASE_COUNTED_MEMORY_H

#include <cstdint>

#include "base/core.h"
#include "base/engine.h"

namespace teak {

class CountedMemory {
 public:
  explicit CountedMemory(int64_t bytes) : bytes_(engine == nullptr ? 0 : bytes) { note(bytes_); }
  ~CountedMemory() { note(-bytes_); }
  CountedMemory(const CountedMemory &) = delete;
  CountedMemory &operator=(const CountedMemory &) = delete;

 private:
  static void note(int64_t bytes) {
    if (bytes != 0 && engine != nullptr) teak_engine_note_memory(engine, bytes);
  }

  const int64_t bytes_;
};

}  // namespace teak

#endif
