/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See encryption_keys.h. */

#include "base/encryption_keys.h"

#include <mysql/service_encryption.h>

/* Of the server. The pointer of the service is only set in the library that the server loads, which in packages is not
   this one. */
extern struct encryption_service_st encryption_handler;

namespace teak {

namespace {

bool newest_version(void *, uint32_t key, uint32_t *version) {
  *version = newest_key_version(key);
  return *version != 0;
}

size_t key_bytes(void *, uint32_t key, uint32_t version, uint8_t *bytes, size_t capacity) {
  auto length = static_cast<unsigned>(capacity);
  if (encryption_handler.encryption_key_get_func(key, version, bytes, &length) != 0) return 0;
  return length;
}

}  // namespace

uint32_t newest_key_version(uint32_t key) {
  const unsigned version = encryption_handler.encryption_key_get_latest_version_func(key);
  static_assert(ENCRYPTION_KEY_NOT_ENCRYPTED == 0, "no plugin");
  return version == ENCRYPTION_KEY_VERSION_INVALID ? 0 : version;
}

void set_key_callbacks(teak_engine_options *options) {
  options->newest_key_version = newest_version;
  options->key_bytes = key_bytes;
}

}  // namespace teak
