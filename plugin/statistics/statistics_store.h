/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Where the optimiser's figures outlive a restart: a table of the engine, of no database's, with one row for every table
   that has been sampled. Key: the table's id, which is never used again. Value: the bytes that the caller gives.

   Figures are no data: what cannot be read or written is sampled again, and a failure goes to the error log alone. */

#ifndef TEAK_STATISTICS_STATISTICS_STORE_H
#define TEAK_STATISTICS_STATISTICS_STORE_H

#include <string>

#include "base/core.h"

namespace teak {

namespace statistics_store {

/* False when there is nothing for the table. */
bool load(uint64_t table_id, std::string *bytes);

/* `durable`: waits for the disk, where commits do. */
void save(uint64_t table_id, const std::string &bytes, bool durable);

/* The table is dropped or emptied. */
void forget(const char *table_name);

/* Before the engine is closed. */
void close();

}  // namespace statistics_store

}  // namespace teak

#endif
