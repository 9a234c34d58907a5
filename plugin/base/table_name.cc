/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See table_name.h. */

#include "base/table_name.h"

#include "base/server_version.h"

#include <string>

namespace teak {

namespace {

/* The server's prefix for names of temporary tables, and the prefix that replaces it in the engine. */
constexpr char SERVERS_PREFIX[] = "#sql-temptable-";
constexpr char PREFIX[] = "#temporary-";

/* Prefix and suffix of the names that tables and partitions have while the server copies rows into them. */
constexpr char COPY_PREFIX[] = "#sql-alter-";
constexpr char COPY_SUFFIX[] = "#TMP#";

template <size_t bytes> bool begins(const char *text, size_t length, const char (&prefix)[bytes]) {
  return length >= bytes - 1 && memcmp(text, prefix, bytes - 1) == 0;
}

const char *last_part(const char *path) {
  const char *slash = strrchr(path, FN_LIBCHAR);
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

EngineTableName::EngineTableName(const char *path) : name_(path) {
  const char *last = last_part(path);
  is_temporary_ = begins(last, strlen(last), SERVERS_PREFIX);
  if (is_temporary_) name_ = std::string(PREFIX) + (last + sizeof(SERVERS_PREFIX) - 1);
}

bool is_filled_copy(const char *path) {
  const char *last = last_part(path);
  const size_t length = strlen(last), suffix = sizeof(COPY_SUFFIX) - 1;
  return begins(last, length, COPY_PREFIX) ||
         (length > suffix && strncasecmp(last + length - suffix, COPY_SUFFIX, suffix) == 0);
}

bool is_whole_table(const char *path) { return strchr(last_part(path), '#') == nullptr; }

bool is_partition(const char *path) {
  const char *last = last_part(path);
  return strstr(last, "#P#") != nullptr || strstr(last, "#p#") != nullptr;
}

}  // namespace teak
