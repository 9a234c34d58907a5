/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ha_teak.so of packages. It contains the core and this loader, and no code that depends on the server's headers: such
   code differs between patch releases of the server, and is in one shim for each of them.

   1. The server loads ha_teak.so. Its constructor reads the release of the running server and loads the shim of this
      release, which finds the functions of the core and the pointers to the server's services in ha_teak.so.
   2. It copies the shim's declarations of plugins to its own, which the server reads next.
   3. Without a shim it logs what to do, and declares an engine that fails to start, so that INSTALL SONAME fails, too. */

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <mysql/plugin.h>

#include "loader/shim.h"

extern "C" {
// The server reads these three names, see mysql/plugin.h.
int _maria_plugin_interface_version_ = MARIA_PLUGIN_INTERFACE_VERSION;
int _maria_sizeof_struct_st_plugin_ = sizeof(st_maria_plugin);
st_maria_plugin _maria_plugin_declarations_[teak::DECLARATIONS_MAX + 1];
}

namespace teak {

namespace {

constexpr size_t MESSAGE_BYTES = 3072;

// The shims of the package, and those that teak-build-shim has compiled.
constexpr const char *SHIM_DIRECTORIES[] = {TEAK_SHIMS, TEAK_LOCAL_SHIMS};

// What Teak is without a shim: an engine that does not start.
st_mysql_storage_engine failing_engine;

int fail(void *) { return 1; }

/* Writes to the error log of the server. */
__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...) {
  char message[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  // By its name in C++, because the function belongs to the server's internal headers.
  using print = void (*)(const char *, ...);
  if (auto server_log = reinterpret_cast<print>(dlsym(RTLD_DEFAULT, "_Z15sql_print_errorPKcz")))
    server_log("TEAK: %s", message);
  else
    fprintf(stderr, "TEAK: %s\n", message);
}

/* The interface version of the server's storage engines: the release, and eight more bits. 0 outside of a server. It is
   that of an engine inside the server, because the option `version` can change what the server shows. */
int engine_interface_version() {
  auto binlog = static_cast<st_maria_plugin *>(dlsym(RTLD_DEFAULT, "builtin_maria_binlog_plugin"));
  return binlog == nullptr ? 0 : static_cast<st_mysql_storage_engine *>(binlog->info)->interface_version;
}

void declare_failing_engine(int interface_version) {
  failing_engine.interface_version = interface_version;
  st_maria_plugin &engine = _maria_plugin_declarations_[0];
  engine.type = MYSQL_STORAGE_ENGINE_PLUGIN;
  engine.info = &failing_engine;
  engine.name = "TEAK";
  engine.author = "The Teak contributors";
  engine.descr = "Not available: there is no shim for this release of the server";
  engine.license = PLUGIN_LICENSE_GPL;
  engine.init = fail;
  engine.version = 1;
  engine.version_info = "0.1";
  engine.maturity = MariaDB_PLUGIN_MATURITY_EXPERIMENTAL;
}

/* Appends the releases for which a directory has shims. */
void list_releases(const char *directory, char *text, size_t text_bytes) {
  DIR *entries = opendir(directory);
  if (entries == nullptr) return;
  while (const dirent *entry = readdir(entries)) {
    if (entry->d_name[0] == '.') continue;
    size_t used = strlen(text);
    snprintf(text + used, text_bytes - used, "%s%s", used == 0 ? "" : ", ", entry->d_name);
  }
  closedir(entries);
}

constexpr const char *TABLES_REMAIN = "Tables of Teak are not available; their files are not changed.";

void log_missing_shim(const char *release) {
  char releases[512] = "";
  for (const char *directory : SHIM_DIRECTORIES) list_releases(directory, releases, sizeof releases);
  log_error(
      "This version of Teak (%s) does not support MariaDB %s: there is no shim for it in %s or %s. It supports: %s. %s "
      "Install a version of the package mariadb-plugin-teak that supports MariaDB %s; or install the package "
      "mariadb-plugin-teak-source and run `sudo teak-build-shim --download`. Then restart the server.",
      TEAK_CORE_ID, release, TEAK_SHIMS, TEAK_LOCAL_SHIMS, releases, TABLES_REMAIN, release);
}

/* Whether the shim was compiled for this core; copies its declarations. */
bool take_declarations(void *shim, const char *path) {
  auto core_id = static_cast<const char *>(dlsym(shim, "teak_shim_core_id"));
  auto declarations = static_cast<st_maria_plugin *>(dlsym(shim, "_maria_plugin_declarations_"));
  auto declaration_bytes = static_cast<int *>(dlsym(shim, "_maria_sizeof_struct_st_plugin_"));
  if (core_id == nullptr || declarations == nullptr || declarations == _maria_plugin_declarations_ ||
      declaration_bytes == nullptr || *declaration_bytes != static_cast<int>(sizeof(st_maria_plugin))) {
    log_error("%s is not a shim of Teak. %s Remove it, run `sudo teak-build-shim`, and restart the server.", path,
              TABLES_REMAIN);
    return false;
  }
  if (strcmp(core_id, TEAK_CORE_ID) != 0) {
    log_error(
        "%s was compiled for version %s of Teak, this is version %s. %s Run `sudo teak-build-shim --download` of the "
        "package mariadb-plugin-teak-source, and restart the server.",
        path, core_id, TEAK_CORE_ID, TABLES_REMAIN);
    return false;
  }
  for (size_t i = 0; i < DECLARATIONS_MAX && declarations[i].info != nullptr; ++i)
    _maria_plugin_declarations_[i] = declarations[i];
  return true;
}

bool load_shim(const char *release) {
  for (const char *directory : SHIM_DIRECTORIES) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/teak_shim.so", directory, release);
    struct stat found;
    if (stat(path, &found) != 0) continue;
    void *shim = dlopen(path, RTLD_NOW);
    if (shim == nullptr) {
      log_error(
          "The shim for MariaDB %s cannot be loaded: %s. %s Install the package mariadb-plugin-teak again, or run "
          "`sudo teak-build-shim --download` of the package mariadb-plugin-teak-source; then restart the server.",
          release, dlerror(), TABLES_REMAIN);
      return false;
    }
    return take_declarations(shim, path);
  }
  log_missing_shim(release);
  return false;
}

__attribute__((constructor)) void load() {
  int interface_version = engine_interface_version();
  if (interface_version == 0) {
    log_error("ha_teak.so is not loaded by a MariaDB server.");
    return;
  }
  int id = interface_version >> 8;
  char release[32];
  snprintf(release, sizeof release, "%d.%d.%d", id / 10000, id / 100 % 100, id % 100);
  if (!load_shim(release)) declare_failing_engine(interface_version);
}

}  // namespace

}  // namespace teak
