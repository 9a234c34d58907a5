/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Names of tables: the server's paths and the engine's names. */

#ifndef TEAK_BASE_TABLE_NAME_H
#define TEAK_BASE_TABLE_NAME_H

#include <string>

#include "base/core.h"

namespace teak {

/* What the engine calls the table at a path of the server. A temporary table's path is in the server's temporary
   directory; its name, which is unique in the server, becomes one without a directory. Files that begin as the server's
   own do would be removed by it. */
class NameInEngine {
 public:
  explicit NameInEngine(const char *path);
  operator teak_slice() const { return {reinterpret_cast<const uint8_t *>(name_.data()), name_.size()}; }
  /* A table of one session; not what ALTER TABLE copies into. */
  bool is_temporary() const { return is_temporary_; }

 private:
  std::string name_;
  bool is_temporary_;
};

/* Removes the temporary tables that a crash left. */
teak_status drop_left_temporary_tables();

}  // namespace teak

#endif
