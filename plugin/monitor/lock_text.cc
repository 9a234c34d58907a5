/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See lock_text.h. */

#include "monitor/lock_text.h"

#include <new>

#include "base/engine.h"
#include "sql_acl.h"
#include "sql_show.h"

namespace teak {

namespace {

std::string sql_name(const std::string &file_name) {
  char text[NAME_LEN * 2 + 1];
  size_t length = filename_to_tablename(file_name.c_str(), text, sizeof(text), true);
  return std::string(text, length);
}

void append_json_string(std::string *json, const std::string &text) {
  json->push_back('"');
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json->push_back('\\');
      json->push_back(c);
    } else if (byte < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      json->append(escaped);
    } else {
      json->push_back(c);
    }
  }
  json->push_back('"');
}

void append_number(std::string *json, const char *name, uint64_t value) {
  if (json->back() != '{') json->push_back(',');
  json->append("\"").append(name).append("\":").append(std::to_string(value));
}

void append_text(std::string *json, const char *name, const std::string &value) {
  if (json->back() != '{') json->push_back(',');
  json->append("\"").append(name).append("\":");
  append_json_string(json, value);
}

struct FailedWait {
  bool statements;
  std::string head, blockers;
  bool is_out_of_memory;
};

void add_blocker(FailedWait *failed, const teak_wait_info *wait) {
  if (failed->head.empty()) {
    SqlName name(wait->table);
    failed->head = "{";
    append_number(&failed->head, "mysql_thread_id", wait->requester_thread);
    append_number(&failed->head, "requesting_txnid", wait->requester);
    append_number(&failed->head, "blocking_txnid", wait->blocker);
    append_text(&failed->head, "dbname", name.database);
    append_text(&failed->head, "table", name.table);
    append_text(&failed->head, "index", std::string(reinterpret_cast<const char *>(wait->index.data), wait->index.len));
    append_text(&failed->head, "key", hexadecimal(wait->key));
    append_text(&failed->head, "kind", kind_name(wait->kind));
    append_number(&failed->head, "waited_ms", wait->waited_milliseconds);
  }
  if (wait->blocker == 0) return;
  if (!failed->blockers.empty()) failed->blockers.push_back(',');
  std::string blocker = "{";
  append_number(&blocker, "txnid", wait->blocker);
  append_number(&blocker, "mysql_thread_id", wait->blocker_thread);
  append_text(&blocker, "kind", kind_name(wait->kind));
  if (failed->statements) append_text(&blocker, "statement", statement_of(wait->blocker_thread));
  failed->blockers.append(blocker).push_back('}');
}

void try_to_add_blocker(void *context, const teak_wait_info *wait) {
  auto *failed = static_cast<FailedWait *>(context);
  try {
    add_blocker(failed, wait);
  } catch (const std::bad_alloc &) {
    failed->is_out_of_memory = true;
  }
}

}  // namespace

SqlName::SqlName(teak_slice name) {
  std::string path(reinterpret_cast<const char *>(name.data), name.len);
  size_t slash = path.rfind('/');
  if (slash != std::string::npos) database = sql_name(path.substr(0, slash));
  table = sql_name(slash == std::string::npos ? path : path.substr(slash + 1));
}

std::string hexadecimal(teak_slice bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.len * 2);
  for (size_t i = 0; i < bytes.len; i++) {
    text.push_back(digits[bytes.data[i] >> 4]);
    text.push_back(digits[bytes.data[i] & 15]);
  }
  return text;
}

const char *kind_name(teak_lock_kind kind) {
  switch (kind) {
    case TEAK_LOCK_KIND_ROW:
      return "ROW";
    case TEAK_LOCK_KIND_ROW_RANGE:
      return "ROW_RANGE";
    case TEAK_LOCK_KIND_GAP:
      return "GAP";
    case TEAK_LOCK_KIND_WRITE_RANGE:
      return "RANGE";
    case TEAK_LOCK_KIND_WRITTEN:
      return "IMPLICIT";
    case TEAK_LOCK_KIND_WAITING_WRITE:
      return "WAITING_WRITE";
  }
  return "";
}

std::string statement_of(uint64_t thread) {
  constexpr size_t BYTES_MAX = 1024;
  char text[BYTES_MAX];
  THD *found = thread == 0 ? nullptr : find_thread_by_id(static_cast<longlong>(thread));
  if (found == nullptr) return std::string();
  size_t length = thd_query_safe(found, text, sizeof(text));
  mysql_mutex_unlock(&found->LOCK_thd_kill);
  return std::string(text, length);
}

bool may_see_others(THD *thd) { return !check_global_access(thd, PROCESS_ACL, true); }

std::string describe_failed_wait(THD *thd, teak_transaction *transaction) try {
  FailedWait failed = {may_see_others(thd), {}, {}, false};
  const teak_status status = teak_transaction_take_failed_wait(engine, transaction, try_to_add_blocker, &failed);
  if (status != TEAK_OK || failed.is_out_of_memory) return std::string();
  return failed.head + ",\"blocking\":[" + failed.blockers + "]}";
} catch (const std::bad_alloc &) {
  return std::string();
}

}  // namespace teak
