/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Text of transactions, locks and waits, for INFORMATION_SCHEMA and variables. */

#ifndef TEAK_MONITOR_LOCK_TEXT_H
#define TEAK_MONITOR_LOCK_TEXT_H

#include "base/server_version.h"

#include <string>

#include "base/core.h"

namespace teak {

/* The names of the database and the table, from the table's name in the engine. Both are empty if that name is
   empty. */
struct SqlName {
  std::string database, table;
  explicit SqlName(teak_slice name);
};

std::string hexadecimal(teak_slice bytes);
const char *kind_name(teak_lock_kind kind);

/* The statement that a connection runs; empty if there is none, or if it cannot be read without waiting. */
std::string statement_of(uint64_t thread);

/* Whether the connection has the PROCESS privilege. Raises no error. */
bool may_see_others(THD *thd);

/* The transaction's last failed lock wait as JSON; empty if there is none, or if it was already described. */
std::string describe_failed_wait(THD *thd, teak_transaction *transaction);

}  // namespace teak

#endif
