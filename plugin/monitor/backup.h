/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Hot backup: the server's BACKUP STAGE statements, with which mariadb-backup blocks commits, and
   INFORMATION_SCHEMA.TEAK_BACKUPS. The command `teak backup` sets teak_backup_target, which arms a backup. */

#ifndef TEAK_MONITOR_BACKUP_H
#define TEAK_MONITOR_BACKUP_H

#include "base/server_version.h"

namespace teak {

/* BACKUP STAGE START. Returns whether a backup of the engine is armed. */
bool begin_backup_stage();

/* The end of the BACKUP STAGE statements, by BACKUP STAGE END, an abort, or the end of the connection. The server
   permits commits again after this call. */
void end_backup_stage();

/* SET GLOBAL teak_backup_target: arms a backup to the directory; cancels it if the name is empty. True: an error was
   raised. */
bool request_backup(const char *directory);

int init_backups_table(void *schema_table);

}  // namespace teak

#endif
