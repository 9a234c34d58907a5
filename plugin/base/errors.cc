/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See errors.h. */

#include "base/errors.h"

#include <algorithm>
#include <new>

namespace teak {

std::atomic<uint64_t> corruption_errors;

namespace {

void describe(teak_status status, const char *subject, std::string *cause) try {
  const LastErrorText error_text;
  *cause = subject;
  cause->append(": ").append(error_text.empty() ? "no error message is available" : error_text.c_str());
  if (status == TEAK_TOO_MANY_LOCKS) cause->append(" (teak_max_lock_memory)");
} catch (const std::bad_alloc &) {
  // The text ends where memory ran out.
}

}  // namespace

LastErrorText::LastErrorText() {
  const size_t length = teak_last_error(text_, sizeof(text_) - 1);
  text_[std::min(length, sizeof(text_) - 1)] = '\0';
}

bool raise_out_of_memory() {
  my_error(ER_OUT_OF_RESOURCES, MYF(0));
  return true;
}

int convert(THD *thd, teak_status status, const char *subject, std::string *cause) {
  describe(status, subject, cause);
  int error = ERROR_OF_ENGINE;
  bool explain = false;  // the server's text for this number does not contain the cause
  switch (status) {
    case TEAK_OK:
      return 0;
    case TEAK_NOT_FOUND:
      return HA_ERR_KEY_NOT_FOUND;
    case TEAK_DUPLICATE_KEY:
      return HA_ERR_FOUND_DUPP_KEY;
    case TEAK_LOCK_TIMEOUT:
      // As in InnoDB, the statement is rolled back and the transaction remains open.
      if (thd != nullptr) thd->mark_transaction_to_rollback(false);
      return HA_ERR_LOCK_WAIT_TIMEOUT;
    case TEAK_DEADLOCK:
      if (thd != nullptr) thd->mark_transaction_to_rollback(true);
      return HA_ERR_LOCK_DEADLOCK;
    case TEAK_CONFLICT:
      if (thd != nullptr) thd->mark_transaction_to_rollback(true);
      return HA_ERR_RECORD_CHANGED;
    case TEAK_INTERRUPTED:
      // An interrupt that no KILL caused must not be reported as a KILL.
      if (thd == nullptr || thd_kill_level(thd) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
      break;
    case TEAK_NO_SPACE:
      error = HA_ERR_DISK_FULL;
      explain = true;
      break;
    case TEAK_CORRUPT:
      corruption_errors.fetch_add(1, std::memory_order_relaxed);
      error = HA_ERR_CRASHED;
      explain = true;
      break;
    case TEAK_NO_KEY:
      error = HA_ERR_DECRYPTION_FAILED;
      explain = true;
      break;
    case TEAK_READ_ONLY:
      error = HA_ERR_TABLE_READONLY;
      explain = true;
      break;
    case TEAK_TABLE_EXISTS:
      error = HA_ERR_TABLE_EXIST;
      break;
    case TEAK_NO_SUCH_TABLE:
      return HA_ERR_NO_SUCH_TABLE;
    case TEAK_TABLE_CHANGED:
      return HA_ERR_TABLE_DEF_CHANGED;
    case TEAK_TOO_LARGE:
      error = HA_ERR_TO_BIG_ROW;
      break;
    case TEAK_OUT_OF_MEMORY:
      error = HA_ERR_OUT_OF_MEM;
      explain = true;
      break;
    case TEAK_TOO_MANY_LOCKS:
      // As in InnoDB, the transaction is rolled back, because its own locks fill the memory.
      if (thd != nullptr) thd->mark_transaction_to_rollback(true);
      error = HA_ERR_LOCK_TABLE_FULL;
      explain = true;
      break;
    case TEAK_IO:
    case TEAK_UNAVAILABLE:
    case TEAK_BACKUP_FAILED:
    case TEAK_IN_USE:
    case TEAK_POISONED:
    case TEAK_INVALID_ARGUMENT:
    case TEAK_UNSUPPORTED_FORMAT:
    case TEAK_NO_SUCH_INDEX:
    case TEAK_INTERNAL:
      break;
  }
  // Errors that a statement causes are not logged. A full disk is not logged here, because the server logs each such
  // error. The engine itself logs when the disk becomes full or has space again, and when a table becomes read-only or
  // unavailable.
  if (status != TEAK_TABLE_EXISTS && status != TEAK_TOO_LARGE && status != TEAK_INTERRUPTED &&
      status != TEAK_NO_SPACE && status != TEAK_TOO_MANY_LOCKS && status != TEAK_READ_ONLY &&
      status != TEAK_UNAVAILABLE)
    sql_print_error("TEAK: %s", cause->c_str());
  // A note, because strict mode would turn a warning into an error.
  if (explain && thd != nullptr)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_GET_ERRMSG, ER_THD(thd, ER_GET_ERRMSG),
                        static_cast<int>(status), cause->c_str(), "TEAK");
  return error;
}

int raise(THD *thd, teak_status status, const char *subject) {
  std::string cause;
  int error = convert(thd, status, subject, &cause);
  switch (error) {
    case 0:
    case HA_ERR_ABORTED_BY_USER:
      break;
    case HA_ERR_LOCK_WAIT_TIMEOUT:
      my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
      break;
    case HA_ERR_LOCK_DEADLOCK:
      my_error(ER_LOCK_DEADLOCK, MYF(0));
      break;
    case HA_ERR_LOCK_TABLE_FULL:
      my_error(ER_LOCK_TABLE_FULL, MYF(0));
      break;
    case HA_ERR_DISK_FULL:
      my_printf_error(ER_DISK_FULL, "Disk full (%s)", MYF(ME_ERROR_LOG), cause.c_str());
      break;
    default:
      my_error(ER_GET_ERRMSG, MYF(0), error, cause.c_str(), "TEAK");
  }
  return error;
}

}  // namespace teak
