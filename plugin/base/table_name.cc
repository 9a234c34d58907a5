/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See table_name.h. */

#include "base/table_name.h"

#include <string>
#include <vector>

#include "base/engine.h"

namespace teak {

namespace {

/* The server's prefix for names of temporary tables, and the prefix that replaces it in the engine. */
constexpr char SERVERS_PREFIX[] = "#sql-temptable-";
constexpr char PREFIX[] = "#temporary-";

template <size_t bytes> bool begins(const char *text, size_t length, const char (&prefix)[bytes]) {
  return length >= bytes - 1 && memcmp(text, prefix, bytes - 1) == 0;
}

}  // namespace

EngineTableName::EngineTableName(const char *path) : name_(path) {
  size_t slash = name_.rfind(FN_LIBCHAR);
  const char *last = path + (slash == std::string::npos ? 0 : slash + 1);
  is_temporary_ = begins(last, strlen(last), SERVERS_PREFIX);
  if (is_temporary_) name_ = std::string(PREFIX) + (last + sizeof(SERVERS_PREFIX) - 1);
}

teak_status drop_leftover_temporary_tables() {
  std::vector<std::string> left;
  auto keep = [](void *context, teak_slice name) {
    const char *text = reinterpret_cast<const char *>(name.data);
    if (begins(text, name.len, PREFIX)) static_cast<std::vector<std::string> *>(context)->emplace_back(text, name.len);
  };
  teak_status status = teak_table_list(engine, keep, &left);
  for (size_t i = 0; status == TEAK_OK && i < left.size(); i++)
    status = teak_table_drop(engine, {reinterpret_cast<const uint8_t *>(left[i].data()), left[i].size()});
  return status;
}

}  // namespace teak
