/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See ddl_recovery.h. */

#include "table/ddl_recovery.h"

#include <unistd.h>

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "base/engine.h"
#include "base/errors.h"

namespace teak {

namespace {

std::atomic<bool> recovery_done{false};

/* Whether the name is `database/#sql-...`, with or without a partition name at its end, and has no .frm file. */
bool is_left_by_alter(const std::string &name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string::npos || name.compare(slash + 1, 5, "#sql-") != 0) return false;
  std::string frm = std::string(mysql_real_data_home) + "/" + name.substr(0, name.find("#P#")) + reg_ext;
  return access(frm.c_str(), F_OK) != 0 && errno == ENOENT;
}

}  // namespace

bool is_renamed_before_crash(const char *to) {
  bool exists = false;
  return !recovery_done && teak_table_exists(engine, slice_of(to), &exists) == TEAK_OK && exists;
}

int finish_ddl_recovery(handlerton *) try {
  recovery_done = true;
  struct Names {
    std::vector<std::string> list;
    bool is_out_of_memory;
  };
  Names names = {{}, false};
  auto collect = [](void *context, teak_slice name) {
    auto *names = static_cast<Names *>(context);
    try {
      names->list.emplace_back(reinterpret_cast<const char *>(name.data), name.len);
    } catch (const std::bad_alloc &) {
      names->is_out_of_memory = true;
    }
  };
  teak_status status = teak_table_list(engine, collect, &names);
  if (names.is_out_of_memory) throw std::bad_alloc();
  for (const std::string &name : names.list) {
    if (status != TEAK_OK || !is_left_by_alter(name)) continue;
    sql_print_information("TEAK: dropping %s, which an unfinished ALTER TABLE left", name.c_str());
    status = teak_table_drop(engine, slice_of(name));
  }
  if (status != TEAK_OK) sql_print_error("TEAK: after recovery: %s", LastErrorText().c_str());
  return status != TEAK_OK;
} catch (const std::bad_alloc &) {
  sql_print_error("TEAK: after recovery: out of memory");
  return 1;
}

}  // namespace teak
