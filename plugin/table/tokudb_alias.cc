/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See tokudb_alias.h. */

#include "table/tokudb_alias.h"

#include "base/server_version.h"

#include "base/engine.h"
#include "monitor/variables.h"
#include "table/drop_table.h"

namespace teak {

namespace {

handlerton *alias = nullptr;  // while it stands for Teak's handlerton
uint own_slot;
plugin_ref engine_plugin;  // Teak's plugin, which must not be unloaded before the alias

/* Called for a table that has no definition yet, for a partitioned one once for each partition. */
handler *create_handler(handlerton *, TABLE_SHARE *share, MEM_ROOT *memory) {
  static const char note[] = "Using storage engine TEAK, of which TokuDB is another name";
  THD *thd = current_thd;
  if (!thd->get_stmt_da()->has_sql_condition(note, sizeof note - 1))
    push_warning(thd, Sql_condition::WARN_LEVEL_NOTE, ER_WARN_USING_OTHER_HANDLER, note);
  return engine_handlerton->create(engine_handlerton, share, memory);
}

int drop_table(handlerton *, const char *path) { return drop_table_by_path(path); }

/* Only because the server lets an engine with this function write its .frm files, as Teak does. */
int discover_table(handlerton *, THD *, TABLE_SHARE *) { return HA_ERR_NO_SUCH_TABLE; }

/* The server calls it when it has assigned the slots. */
int stand_for_engine(handlerton *hton) {
  if (engine == nullptr || !tokudb_alias()) return 0;
  engine_plugin = ha_lock_engine(nullptr, engine_handlerton);
  if (engine_plugin == nullptr) return 0;
  alias = hton;
  own_slot = hton->slot;
  hton->slot = engine_handlerton->slot;
  hton->create = create_handler;
  hton->drop_table = drop_table;
  hton->discover_table = discover_table;
  hton->table_options = engine_handlerton->table_options;
  hton->index_options = engine_handlerton->index_options;
  hton->tablefile_extensions = engine_handlerton->tablefile_extensions;
  // Only SHOW ENGINES reads these: no transaction has this handlerton.
  hton->commit = engine_handlerton->commit;
  hton->prepare = engine_handlerton->prepare;
  hton->savepoint_set = engine_handlerton->savepoint_set;
  hton->flags = engine_handlerton->flags;
  return 0;
}

}  // namespace

int init_tokudb_alias(void *plugin) {
  auto *hton = static_cast<handlerton *>(plugin);
  // Otherwise the server shows and accepts the name.
  hton->flags = HTON_HIDDEN | HTON_NOT_USER_SELECTABLE;
  hton->db_type = DB_TYPE_AUTOASSIGN;
  hton->signal_ddl_recovery_done = stand_for_engine;
  return 0;
}

int deinit_tokudb_alias(void *) {
  if (alias == nullptr) return 0;
  // The server frees what belongs to the slot, to the options and to discovery.
  alias->slot = own_slot;
  alias->discover_table = nullptr;
  alias->table_options = alias->index_options = nullptr;
  alias = nullptr;
  plugin_unlock(nullptr, engine_plugin);
  return 0;
}

}  // namespace teak
