/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See discovery.h. */

#include "table/discovery.h"

#include <unistd.h>

#include <new>
#include <vector>

#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"

namespace teak {

namespace {

bool has_frm(const std::string &path) { return access((path + reg_ext).c_str(), F_OK) == 0; }

/* Logs and raises an error with its cause. */
int refuse(const char *path, const std::string &cause) {
  const std::string text = std::string(path) + ": " + cause;
  sql_print_error("TEAK: %s", text.c_str());
  my_error(ER_GET_ERRMSG, MYF(0), ERROR_OF_ENGINE, text.c_str(), "TEAK");
  return HA_ERR_GENERIC;
}

teak_status store(const char *path, const TableMetadata &metadata) {
  const std::vector<uint8_t> bytes = metadata.encode();
  return teak_table_set_metadata(engine, EngineTableName(path), {bytes.data(), bytes.size()});
}

teak_status forget_definition(const char *path) {
  TableMetadata metadata;
  std::string cause;
  const teak_status status = TableMetadata::load(path, &metadata, &cause);
  if (status != TEAK_OK) return status;
  metadata.frm = FrmImage();
  metadata.forget_version();
  return store(path, metadata);
}

/* Stores the table's .frm file in its metadata. check_definition() adds the version when the table is opened, and stores
   the file then if this call fails. */
void store_definition(const char *path) {
  TableMetadata metadata;
  std::string cause;
  if (TableMetadata::load(path, &metadata, &cause) == TEAK_OK && metadata.frm.read_file(path) == TEAK_OK)
    (void)store(path, metadata);
}

}  // namespace

int discover_table(handlerton *, THD *thd, TABLE_SHARE *share) try {
  const char *path = share->normalized_path.str;
  if (!is_whole_table(path)) return HA_ERR_NO_SUCH_TABLE;
  TableMetadata metadata;
  std::string cause;
  const teak_status status = TableMetadata::load(path, &metadata, &cause);
  if (status == TEAK_NO_SUCH_TABLE || status == TEAK_INVALID_ARGUMENT) return HA_ERR_NO_SUCH_TABLE;
  if (status != TEAK_OK) return refuse(path, cause);
  if (metadata.frm.empty())
    return refuse(path, "the .frm file is missing, and the catalogue does not contain the definition");
  std::vector<uint8_t> image;
  if (metadata.frm.decompress(&image) != TEAK_OK) return refuse(path, LastErrorText().c_str());
  if (int error = share->init_from_binary_frm_image(thd, true, image.data(), image.size()))
    return thd->is_error() ? HA_ERR_GENERIC : error;
  // Otherwise check_definition() would reject this definition, and the server would discover the table again, endlessly.
  if (metadata.knows_version() && !metadata.has_version(share->tabledef_version))
    return refuse(path, "the definition in the catalogue is of another version than the table");
  sql_print_information("TEAK: wrote %s%s from the catalogue", path, reg_ext);
  return 0;
} catch (const std::bad_alloc &) {
  return HA_ERR_OUT_OF_MEM;
}

int discover_table_names(handlerton *, DatabaseName database, MY_DIR *, handlerton::discovered_list *result) try {
  char directory[FN_REFLEN + 1];
  build_table_filename(directory, sizeof(directory) - 1, database->str, "", "", 0);
  struct Names {
    std::vector<std::string> list;
    bool is_out_of_memory;
  };
  Names names = {{}, false};
  auto collect = [](void *context, teak_slice name) {
    auto *names = static_cast<Names *>(context);
    try {
      names->list.emplace_back(reinterpret_cast<const char *>(name.data), name.len);
    } catch (const std::bad_alloc &) {
      names->is_out_of_memory = true;
    }
  };
  const teak_slice slice = {reinterpret_cast<const uint8_t *>(directory), strlen(directory)};
  const teak_status status = teak_table_list_directory(engine, slice, collect, &names);
  if (names.is_out_of_memory) throw std::bad_alloc();
  if (status == TEAK_INVALID_ARGUMENT) return 0;  // it cannot be the directory of a table
  if (status != TEAK_OK) return raise(current_thd, status, directory);
  for (const std::string &name : names.list)
    if (is_whole_table(name.c_str()) && !has_frm(directory + name) && result->add_file(name.c_str())) return 1;
  return 0;
} catch (const std::bad_alloc &) {
  return raise_out_of_memory();
}

int discover_table_existence(handlerton *, const char *database, const char *table) try {
  char path[FN_REFLEN + 1];
  build_table_filename(path, sizeof(path) - 1, database, table, "", 0);
  bool exists = false;
  teak_status status = TEAK_INVALID_ARGUMENT;
  if (is_whole_table(path)) status = teak_table_exists(engine, EngineTableName(path), &exists);
  if (status != TEAK_OK && status != TEAK_INVALID_ARGUMENT) {
    raise(current_thd, status, path);
    return 1;
  }
  if (exists) return 1;
  // CREATE TABLE must not overwrite the .frm file of a table that is missing in the catalogue.
  return has_frm(path);
} catch (const std::bad_alloc &) {
  raise_out_of_memory();
  return 1;
}

int check_definition(const char *path, const TABLE_SHARE *share, TableMetadata *metadata, std::string *cause) {
  const LEX_CUSTRING &version = share->tabledef_version;
  if (!is_whole_table(path) || version.length != MY_UUID_SIZE) return 0;
  if (metadata->knows_version() && !metadata->has_version(version)) {
    if (!metadata->frm.empty()) {
      sql_print_warning("TEAK: %s%s is not the table's definition and is replaced by the one in the catalogue", path,
                        reg_ext);
      return HA_ERR_TABLE_DEF_CHANGED;
    }
    *cause = std::string(path) + ": the .frm file is not the table's definition";
    sql_print_error("TEAK: %s", cause->c_str());
    return ERROR_OF_ENGINE;
  }
  if (metadata->knows_version() && !metadata->frm.empty()) return 0;
  metadata->set_version(version);
  teak_status status = metadata->frm.read_file(share->normalized_path.str);
  if (status == TEAK_OK) status = store(path, *metadata);
  if (status != TEAK_OK)
    sql_print_warning(
        "TEAK: %s: the definition was not stored in the catalogue; this is tried again when the table is "
        "opened next",
        path);
  return 0;
}

teak_status rename_engine_table(const char *from, const char *to) {
  const bool is_other_kind = is_partition(from) != is_partition(to);
  if (is_other_kind)
    if (const teak_status status = forget_definition(from)) return status;
  const teak_status status = teak_table_rename(engine, EngineTableName(from), EngineTableName(to));
  if (status == TEAK_OK && is_other_kind && is_whole_table(to)) store_definition(to);
  return status;
}

}  // namespace teak
