/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Two-phase commit with the server as coordinator: hooks for prepared transactions without a session. */

#ifndef TEAK_SESSION_TWO_PHASE_COMMIT_H
#define TEAK_SESSION_TWO_PHASE_COMMIT_H

#include "base/server_version.h"

namespace teak {

/* Hooks of the handlerton. */
int recover_prepared(XID *list, uint length);
int commit_by_xid(XID *xid);
int rollback_by_xid(XID *xid);
void commit_checkpoint_request(void *cookie);

}  // namespace teak

#endif
