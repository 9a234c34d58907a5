/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* OptimizeLock: the metadata lock of the table that OPTIMIZE TABLE rewrites.

     1. The server acquires an exclusive lock, closes all other instances of the table, and calls the engine.
     2. admit_readers() lowers the lock: other connections can read the table, but wait when they want to write it.
     3. exclude_readers() makes it exclusive again for the commit. Only one connection at a time can hold the lowered
        lock, so two connections cannot cause a deadlock by raising it.
     4. The destructor lowers it if it is exclusive. The server releases it at the end of the statement.

   These are the steps of ALTER TABLE in place. Under LOCK TABLES the lock is lowered to that of LOCK TABLES ... WRITE. A
   temporary table has no lock. */

#ifndef TEAK_ALTER_OPTIMIZE_LOCK_H
#define TEAK_ALTER_OPTIMIZE_LOCK_H

#include "base/server_version.h"

#include "mdl.h"

namespace teak {

class OptimizeLock {
 public:
  OptimizeLock(THD *thd, TABLE *table);
  ~OptimizeLock() { admit_others(); }
  OptimizeLock(const OptimizeLock &) = delete;
  OptimizeLock &operator=(const OptimizeLock &) = delete;

  /* Does nothing unless the lock is exclusive. */
  void admit_others();
  /* True: an error was raised. */
  bool exclude_others();

 private:
  THD *const thd_;
  TABLE *const table_;  // nullptr: temporary
  const enum_mdl_type lowered_;
  bool is_exclusive_;
};

}  // namespace teak

#endif
