/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See refusals.h. */

#include "monitor/refusals.h"

namespace teak {

std::atomic<uint64_t> refusals[REFUSALS];

const char *const refusal_names[REFUSALS] = {"bulk_load_refusals_duplicates",  "bulk_load_refusals_triggers",
                                             "bulk_load_refusals_replication", "bulk_load_refusals_definition",
                                             "bulk_load_refusals_temporary",   "bulk_load_refusals_altered",
                                             "bulk_load_refusals_memory"};

}  // namespace teak
