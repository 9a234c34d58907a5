/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Table names: conversion between the server's paths and the engine's names. */

#ifndef TEAK_BASE_TABLE_NAME_H
#define TEAK_BASE_TABLE_NAME_H

#include <string>

#include "base/core.h"

namespace teak {

/* The engine's name of a table, given the server's path. For a temporary table, whose path is in the server's
   temporary directory, it is the last part of the path, which is unique in the server. Its prefix is replaced,
   because the server removes files with its own prefix. */
class EngineTableName {
 public:
  explicit EngineTableName(const char *path);
  operator teak_slice() const { return {reinterpret_cast<const uint8_t *>(name_.data()), name_.size()}; }
  /* A session's temporary table; not the target of a copying ALTER TABLE. */
  bool is_temporary() const { return is_temporary_; }

 private:
  std::string name_;
  bool is_temporary_;
};

/* Whether a path of the server names the target of a copying ALTER TABLE, or a partition that is being reorganised. */
bool is_filled_copy(const char *path);

/* Whether a path names a complete table: not a partition, a temporary table, or a table that the server uses during
   an ALTER TABLE. Only the paths of these three kinds contain '#', because the server encodes it in names that a
   user has chosen. */
bool is_whole_table(const char *path);

bool is_partition(const char *path);

}  // namespace teak

#endif
