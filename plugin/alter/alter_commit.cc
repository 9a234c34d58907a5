/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See alter_commit.h. */

#include "alter/alter_commit.h"

#include "session/query_cache.h"

namespace teak {

std::vector<AlterContext *> take_alter_contexts(Alter_inplace_info *alter) {
  std::vector<AlterContext *> contexts;
  if (alter->group_commit_ctx != nullptr)
    for (inplace_alter_handler_ctx **each = alter->group_commit_ctx; *each != nullptr; each++)
      contexts.push_back(static_cast<AlterContext *>(*each));
  else
    contexts.push_back(static_cast<AlterContext *>(alter->handler_ctx));
  alter->group_commit_ctx = nullptr;
  return contexts;
}

bool commit_alter(OpenTable &open, const std::vector<AlterContext *> &contexts) {
  std::vector<teak_alteration *> alterations;
  std::vector<teak_alteration_plan> plans;
  for (AlterContext *context : contexts) {
    context->open.share()->statistics().stop_sampling();
    alterations.push_back(context->alteration);
    plans.push_back(
        {context->indexes.data(), context->indexes.size(), {context->metadata.data(), context->metadata.size()}});
  }
  const teak_status status = teak_alteration_commit(alterations.data(), plans.data(), plans.size());
  for (AlterContext *context : contexts) {
    query_cache_use::table_changed(context->open.name().c_str());
    context->end();
  }
  return status == TEAK_OK ? false : open.raise_error(open.failure(status));
}

void roll_back_alter(Alter_inplace_info *alter) {
  if (auto *context = static_cast<AlterContext *>(alter->handler_ctx)) context->end();
}

}  // namespace teak
