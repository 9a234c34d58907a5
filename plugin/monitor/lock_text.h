/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Words for transactions, locks and waits, shared by what shows them. */

#ifndef TEAK_MONITOR_LOCK_TEXT_H
#define TEAK_MONITOR_LOCK_TEXT_H

#include "base/server_version.h"

#include <string>

#include "base/core.h"

namespace teak {

/* The server's names of a table, of the engine's name for it. Both empty when there is none. */
struct SqlName {
  std::string database, table;
  explicit SqlName(teak_slice name);
};

std::string hexadecimal(teak_slice bytes);
const char *kind_word(teak_lock_kind kind);

/* The statement that a connection runs, as far as it can be had without waiting; empty when it runs none. */
std::string statement_of(uint64_t thread);

/* Whether the connection may see what others do. Raises no error. */
bool may_see_others(THD *thd);

/* What the transaction waited for in vain, as JSON; empty when it did not. */
std::string describe_failed_wait(THD *thd, teak_transaction *transaction);

}  // namespace teak

#endif
