/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */
/* Aggregates in the engine: create_group_by() of the handlerton (group_by_handler.h in the server). The engine computes
   COUNT, SUM, AVG, MIN and MAX of one table, with GROUP BY and WHERE, from the columns of its pages, if the server would scan
   the whole table without locks, and the results are exactly those of the server. */

#ifndef TEAK_PUSHDOWN_GROUP_BY_H
#define TEAK_PUSHDOWN_GROUP_BY_H

#include "base/server_version.h"

#include "group_by_handler.h"

namespace teak {

/* Returns nullptr if the server computes the query. */
group_by_handler *create_group_by(THD *thd, Query *query);

}  // namespace teak

#endif
