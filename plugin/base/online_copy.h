/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ALTER TABLE ... ALGORITHM=COPY, which the server executes since 11.8 while other sessions write the table. */

#ifndef TEAK_BASE_ONLINE_COPY_H
#define TEAK_BASE_ONLINE_COPY_H

#include "base/server_version.h"

namespace teak {

/* Flags of the new table. The server (11.8.6) also applies to the copy what transactions wrote into a partitioned table and
   rolled back, with any engine. So copies of partitioned tables, with the same or without partitions, block writers. */
#if TEAK_SERVER_11
inline ulonglong online_copy_flags(const TABLE_SHARE *share) {
  const THD *thd = current_thd;
  const bool removes_partitions =
      thd != nullptr && thd->lex != nullptr && (thd->lex->alter_info.partition_flags & ALTER_PARTITION_REMOVE);
  const bool is_partitioned = share != nullptr && share->partition_info_str != nullptr;
  return is_partitioned || removes_partitions ? HA_NO_ONLINE_ALTER : 0;
}
#else
inline ulonglong online_copy_flags(const TABLE_SHARE *) { return 0; }
#endif

}  // namespace teak

#endif
