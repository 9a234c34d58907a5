/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Persistent optimiser statistics: an engine table outside of all databases, with one row per sampled table. Key: the table's
   id, which is never reused. Value: bytes that IndexStatistics encodes.

   Statistics are not user data: if they cannot be read or written, they are sampled again and the failure is only
   logged. */

#ifndef TEAK_STATISTICS_STATISTICS_STORE_H
#define TEAK_STATISTICS_STATISTICS_STORE_H

#include <string>

#include "base/core.h"

namespace teak {

namespace statistics_store {

/* Whether this is the name of the table of statistics. */
bool is_name(teak_slice name);

/* False if there is no row for the table, or if it cannot be read. */
bool load(uint64_t table_id, std::string *bytes);

/* Stores the statistics of a table; replaces earlier ones. `durable`: the row is durable when save() returns, unless
   the engine commits without syncing the log. */
void save(uint64_t table_id, const std::string &bytes, bool durable);

/* Removes the statistics of a table. Called before the table is dropped or truncated. */
void forget(uint64_t table_id);

/* Must be called before the engine is closed. */
void close();

}  // namespace statistics_store

}  // namespace teak

#endif
