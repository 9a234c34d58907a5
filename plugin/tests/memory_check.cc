/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Creates each codec repeatedly; each time another one of its allocations fails. The test engine is linked with
   -Bsymbolic-functions, so that it calls the operator new of this file. */

#include "codec_engine.h"

#include <cstdlib>
#include <new>

namespace {

/* Allocations of this thread that succeed before one fails; negative: all succeed. */
thread_local long allocations_left = -1;

}  // namespace

void *operator new(size_t bytes) {
  if (allocations_left == 0) {
    allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) allocations_left--;
  void *memory = malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

namespace teak_tests {

namespace {

/* Calls `create` with a failure of the first allocation, of the second and so on, until no allocation fails. `create`
   returns whether it has succeeded. */
template <typename Create> void fail_each_allocation(Create create, const char *what, Checks *checks) {
  constexpr long ALLOCATIONS_MAX = 10000;
  for (long number = 0; number < ALLOCATIONS_MAX; number++) {
    allocations_left = number;
    const bool created = create();
    const bool failed = allocations_left < 0;
    allocations_left = -1;
    checks->expect(created == !failed,
                   [&] { return std::string(what) + (failed ? " ignored" : " reported") + " a failed allocation"; });
    if (!failed) return;
  }
  checks->expect(false, [&] { return std::string(what) + " does not end"; });
}

}  // namespace

void check_memory(const TABLE *table, const TableCodecs &codecs, Checks *checks) {
  std::string error;
  for (uint number = 0; number < table->s->keys; number++) {
    const teak::KeyCodec *primary = number == codecs.primary_number ? nullptr : codecs.primary.get();
    fail_each_allocation([&] { return teak::KeyCodec::create(table, number, primary, &error) != nullptr; },
                         "the codec of a key", checks);
    std::unique_ptr<teak::KeyOriginals> originals;
    fail_each_allocation([&] { return teak::KeyOriginals::create(table, number, &originals, &error); },
                         "the originals of a key", checks);
  }
  fail_each_allocation([&] { return teak::RowCodec::create(table, codecs.primary, 300, nullptr, &error) != nullptr; },
                       "the codec of rows", checks);
}

}  // namespace teak_tests
