/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* How a teak_status becomes the server's error. convert() is the only place where that is decided. */

#ifndef TEAK_BASE_ERRORS_H
#define TEAK_BASE_ERRORS_H

#include "base/server_version.h"

#include <string>

#include "base/core.h"

namespace teak {

/* An error that no HA_ERR_ number names; handler::get_error_message() gives its text. */
constexpr int ERROR_OF_ENGINE = HA_ERR_LAST + 20;

/* The HA_ERR_ number of a status that is not TEAK_OK. `subject` says what was worked on (a table, 'COMMIT'), `cause`
   receives the whole sentence. Where the server's own text for the number does not hold the cause, a warning with it is
   pushed; where the status ends a transaction the server is told so. */
int convert(THD *thd, teak_status status, const char *subject, std::string *cause);

/* The same for what is not done by a handler (commit, savepoints): raises the error with its cause as well. */
int raise(THD *thd, teak_status status, const char *subject);

/* What the engine said about the calling thread's last error. */
std::string last_error_text();

}  // namespace teak

#endif
