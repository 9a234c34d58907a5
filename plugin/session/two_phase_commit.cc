/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See two_phase_commit.h. */

#include "session/two_phase_commit.h"

#include <algorithm>

#include "base/engine.h"
#include "base/errors.h"
#include "base/xid_bytes.h"
#include "monitor/variables.h"
#include "session/query_cache.h"

namespace teak {

namespace {

/* A copy of an encoded XID. */
struct Name {
  uint8_t bytes[XidBytes::BYTES_MAX];
  size_t length;

  bool is_before(teak_slice name) const {
    const int order = memcmp(bytes, name.data, std::min(length, name.len));
    return order != 0 ? order < 0 : length < name.len;
  }
};

struct RecoveredXids {
  XID *list;
  uint length, found;
  Name *after;
};

/* The server calls recover_prepared() again while the list is full, and ends its own transactions between the calls. So
   each call returns, in order, XIDs after the last one of the previous call. */
void add_recovered(void *context, teak_slice bytes) {
  auto *recovered = static_cast<RecoveredXids *>(context);
  if (!recovered->after->is_before(bytes) || recovered->found == recovered->length) return;
  if (bytes.len <= sizeof(recovered->after->bytes)) {
    memcpy(recovered->after->bytes, bytes.data, bytes.len);
    recovered->after->length = bytes.len;
  }
  if (XidBytes::parse(bytes, &recovered->list[recovered->found]))
    recovered->found++;
  else
    sql_print_warning(
        "TEAK: the XID of a prepared transaction has another format than the server's: the transaction remains "
        "prepared");
}

/* X/Open codes; the server only compares them with 0. */
constexpr int XA_OK = 0, XA_RETRY = 4, XAER_NOTA = -4, XAER_RMFAIL = -7;

/* When a connection closes, another connection may end its prepared transaction before the engines are notified. This
   function then waits until the transaction is detached. If it returned XAER_NOTA instead, the server would report
   success and remove the XID from its list. */
int end_by_xid(const XID &xid, teak_status (*end)(teak_engine *, teak_slice, uint32_t)) {
  const XidBytes bytes(xid);
  THD *thd = current_thd;
  switch (end(engine, bytes.slice(), thd == nullptr ? 0 : session_lock_timeout(thd))) {
    case TEAK_OK:
      query_cache_use::ended_by_xid(bytes.slice());
      return XA_OK;
    case TEAK_NOT_FOUND:
      return XAER_NOTA;
    case TEAK_LOCK_TIMEOUT:
      if (thd != nullptr) my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
      return XA_RETRY;
    default:
      sql_print_error("TEAK: a prepared transaction could not be ended: %s", LastErrorText().c_str());
      // The server ignores this return value in XA COMMIT and XA ROLLBACK.
      if (thd != nullptr) my_error(ER_XAER_RMERR, MYF(0));
      return XAER_RMFAIL;
  }
}

}  // namespace

int recover_prepared(XID *list, uint length) {
  static Name after;  // recovery runs once, in one thread
  RecoveredXids recovered = {list, length, 0, &after};
  if (teak_prepared_list(engine, add_recovered, &recovered) != TEAK_OK) {
    sql_print_error("TEAK: prepared transactions cannot be listed: %s", LastErrorText().c_str());
    return 0;
  }
  return static_cast<int>(recovered.found);
}

int commit_by_xid(XID *xid) { return end_by_xid(*xid, teak_prepared_commit); }
int rollback_by_xid(XID *xid) { return end_by_xid(*xid, teak_prepared_rollback); }

/* Called after a rotation of the binary log. Once the transactions of the older files are durable in the engine,
   recovery does not need these files. */
void commit_checkpoint_request(void *cookie) {
  teak_status status = teak_engine_flush_log(engine);
  if (status == TEAK_OK)
    commit_checkpoint_notify_ha(cookie);
  else
    sql_print_error("TEAK: the log could not be synced, older binary logs are kept: %s", LastErrorText().c_str());
}

}  // namespace teak
