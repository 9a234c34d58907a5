/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See drop_table.h. */

#include "table/drop_table.h"

#include <new>
#include <string>

#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"
#include "session/query_cache.h"
#include "statistics/background_sampling.h"
#include "statistics/statistics_store.h"

namespace teak {

teak_status drop_engine_table(const char *name) {
  const EngineTableName engine_name(name);
  uint64_t table_id = 0;
  if (teak_table_get_id(engine, engine_name, &table_id) == TEAK_OK) {
    background_sampling::withdraw_table(table_id);
    statistics_store::forget(table_id);
  }
  teak_status status = teak_table_drop(engine, engine_name);
  query_cache_use::table_changed(name);
  // A path in the server's temporary directory is not a valid name. The server passes such paths at start, when it
  // drops temporary tables whose definitions remain there.
  return status == TEAK_INVALID_ARGUMENT ? TEAK_NO_SUCH_TABLE : status;
}

int drop_table_by_path(const char *path) try {
  teak_status status = drop_engine_table(path);
  std::string cause;
  return status == TEAK_OK ? 0 : convert(current_thd, status, path, &cause);
} catch (const std::bad_alloc &) {
  return HA_ERR_OUT_OF_MEM;
}

}  // namespace teak
