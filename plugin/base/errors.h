/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Converts teak_status to the server's errors. convert() contains the complete mapping.

   No exception may leave a function that the server or the core calls. So each such function of the handler, of the
   handlerton or of INFORMATION_SCHEMA that allocates with new catches std::bad_alloc, and so does each callback of the
   core that allocates. Functions that report errors do not throw. */

#ifndef TEAK_BASE_ERRORS_H
#define TEAK_BASE_ERRORS_H

#include "base/server_version.h"

#include <atomic>
#include <cstdint>
#include <string>

#include "base/core.h"

namespace teak {

/* An error without a separate HA_ERR_ number; handler::get_error_message() returns its text. */
constexpr int ERROR_OF_ENGINE = HA_ERR_LAST + 20;

/* How often convert() got TEAK_CORRUPT. */
extern std::atomic<uint64_t> corruption_errors;

/* Returns the HA_ERR_ number of a status, or ERROR_OF_ENGINE; 0 for TEAK_OK. `subject` names the object of the call (a
   table, 'COMMIT'); `cause` receives the full message, or less if memory runs out. Pushes a note with the cause if the
   server's text for the number does not contain it, marks the transaction for rollback if the status requires it, and
   may log the cause. */
int convert(THD *thd, teak_status status, const char *subject, std::string *cause);

/* Like convert(), for calls outside of a handler (commit, savepoints). Also raises the error, unless a KILL caused
   it. */
int raise(THD *thd, teak_status status, const char *subject);

/* The engine's message for the calling thread's last error. Does not allocate memory. */
class LastErrorText {
 public:
  LastErrorText();
  const char *c_str() const { return text_; }
  bool empty() const { return text_[0] == '\0'; }

 private:
  char text_[1024];
};

/* Raises the error for a caught std::bad_alloc. For functions that must raise an error themselves if they fail.
   Returns true. */
bool raise_out_of_memory();

}  // namespace teak

#endif
