/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See group_by.h. */

#include "pushdown/group_by.h"

#include <algorithm>
#include <new>

#include "filesort.h"
#include "sql_select.h"

#include "base/engine.h"
#include "base/errors.h"
#include "format/bytes.h"
#include "monitor/measurements.h"
#include "monitor/variables.h"
#include "pushdown/grouped_tables.h"
#include "pushdown/pushed_query.h"

namespace teak {

namespace {

constexpr size_t MEMORY_MIN = 1 << 20;

/* Computes the results of a query, and writes them to the server's temporary table. */
class GroupBy final : public group_by_handler {
 public:
  GroupBy(THD *thd, std::vector<OpenTable *> tables, JOIN *join, std::unique_ptr<PushedQuery> query)
      : group_by_handler(thd, engine_handlerton), tables_(std::move(tables)), open_(*tables_.front()), join_(*join),
        query_(std::move(query)) {
    calls_ = {weigh, accepts, convert, this};
  }
  ~GroupBy() override { teak_aggregate_close(aggregate_); }

  int init_scan() override;
  int next_row() override;
  int end_scan() override;
  void print_error(int error, myf flags) override { open_.server().print_error(error, flags); }

 private:
  static void weigh(void *context, size_t key, teak_slice text, teak_slice *weights);
  static bool accepts(void *context, size_t condition, teak_slice text);
  static bool convert(void *context, size_t table, teak_slice key, teak_slice value, teak_slice *converted);
  teak_status set_result(const PushedQuery::Result &result, Field *to);
  void store_column(Field *from, teak_slice value, Field *to);
  void store_float(const PushedQuery::Result &result, uint64_t rows, teak_slice value, Field *to);
  bool store_sum(const PushedQuery::Result &result, uint64_t rows, teak_slice digits, Field *to);
  bool sort_results();

  std::vector<OpenTable *> tables_;
  OpenTable &open_;  // the first of them
  JOIN &join_;
  std::unique_ptr<PushedQuery> query_;
  teak_aggregate_calls calls_;
  teak_aggregate *aggregate_ = nullptr;
  ByteBuffer weights_, converted_;
  bool is_out_of_memory_ = false;
};

void GroupBy::weigh(void *context, size_t key, teak_slice text, teak_slice *weights) {
  auto *self = static_cast<GroupBy *>(context);
  self->weights_.clear();
  self->query_->keys()[key].weights->encode(text.data, text.len, &self->weights_);
  if (self->weights_.failed()) self->is_out_of_memory_ = true;
  *weights = slice(self->weights_);
}

bool GroupBy::accepts(void *context, size_t condition, teak_slice text) {
  return static_cast<GroupBy *>(context)->query_->condition().accepts(condition, text);
}

/* A row of an earlier schema version, or of a value that does not begin as the columns describe. */
bool GroupBy::convert(void *context, size_t table, teak_slice key, teak_slice value, teak_slice *converted) {
  auto *self = static_cast<GroupBy *>(context);
  const RowCodec &rows = self->tables_[table]->share()->rows();
  uchar *record = self->query_->table()->record[0];
  if (!rows.decode(value.data, value.len, key.data, key.len, record, nullptr, nullptr)) return false;
  self->converted_.clear();
  rows.encode(record, &self->converted_);
  if (self->converted_.failed()) self->is_out_of_memory_ = true;
  *converted = slice(self->converted_);
  return !self->converted_.failed();
}

/* The server stores the results in a temporary table if they have an order, but leaves it to the engine that they are sorted.
   Returns false if memory ran out. */
bool GroupBy::sort_results() {
  if (join_.order == nullptr) return true;
  JOIN_TAB *results = join_.join_tab + join_.exec_join_tab_cnt();
  // With these the server moves the results to the disk if they do not fit into memory.
  join_.tmp_table_param.start_recinfo = results->tmp_table_param->start_recinfo;
  join_.tmp_table_param.recinfo = results->tmp_table_param->recinfo;
  if (results->filesort != nullptr) return true;
  if (join_.add_sorting_to_table(results, join_.order)) return false;
  results->filesort->tracker = new (thd->mem_root) Filesort_tracker(thd->lex->analyze_stmt);
  return results->filesort->tracker != nullptr;
}

int GroupBy::init_scan() try {
  is_out_of_memory_ = false;
  group_by_pushdowns.fetch_add(1, std::memory_order_relaxed);
  if (!sort_results()) return open_.out_of_memory();
  const teak_status status =
      aggregate_ != nullptr
          ? teak_aggregate_rewind(aggregate_)
          : query_->open(open_.session()->transaction_to_read(), tables_,
                         std::max<size_t>(thd->variables.tmp_memory_table_size, MEMORY_MIN), &calls_, &aggregate_);
  if (status == TEAK_OK) return 0;
  return open_.failure(status);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int GroupBy::next_row() try {
  const teak_status status = teak_aggregate_next(aggregate_);
  if (is_out_of_memory_) return open_.out_of_memory();
  if (status == TEAK_NOT_FOUND) return HA_ERR_END_OF_FILE;
  if (status != TEAK_OK) return open_.failure(status);
  Field **to = table->field;
  for (const PushedQuery::Result &result : query_->results()) {
    if (*to == nullptr) return open_.with_text(HA_ERR_INTERNAL_ERROR, "the temporary table lacks a column");
    const teak_status set = set_result(result, *to++);
    if (set != TEAK_OK) return open_.failure(set);
  }
  return 0;
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int GroupBy::end_scan() {
  // The server has counted the results that it has stored. They are counted again, against LIMIT, when it returns them.
  if (join_.order != nullptr) join_.send_records = 0;
  pages_unread.fetch_add(teak_aggregate_unread(aggregate_), std::memory_order_relaxed);
  teak_aggregate_close(aggregate_);
  aggregate_ = nullptr;
  return 0;
}

/* Sets a field of the temporary table. */
teak_status GroupBy::set_result(const PushedQuery::Result &result, Field *to) {
  using Kind = PushedQuery::Result::Kind;
  teak_slice value;
  if (result.kind == Kind::Key) {
    const teak_status status = teak_aggregate_get_key(aggregate_, result.number, &value);
    if (status == TEAK_OK) store_column(result.field, value, to);
    return status;
  }
  uint64_t rows;
  const teak_status status = teak_aggregate_get_item(aggregate_, result.number, &rows, &value);
  if (status != TEAK_OK) return status;
  if (result.kind == Kind::Count) {
    to->set_notnull();
    to->store(static_cast<longlong>(rows), true);
  } else if (result.kind == Kind::Extreme) {
    store_column(result.field, value, to);
  } else if (value.data == nullptr) {
    to->set_null();
    to->reset();
  } else if (result.kind == Kind::FloatSum || result.kind == Kind::FloatAverage) {
    store_float(result, rows, value, to);
  } else if (!store_sum(result, rows, value, to)) {
    return TEAK_INTERNAL;
  }
  return TEAK_OK;
}

/* Copies a value of a column of the table. */
void GroupBy::store_column(Field *from, teak_slice value, Field *to) {
  if (value.data == nullptr) {
    to->set_null();
    to->reset();
    return;
  }
  from->set_notnull();
  if (has_texts(from))
    from->store(reinterpret_cast<const char *>(value.data), value.len, from->charset());
  else
    memcpy(from->ptr, value.data, std::min<size_t>(value.len, from->pack_length()));
  to->set_notnull();
  field_conv(to, from);
}

/* Without rounding, as the server stores the sums of its own temporary tables. */
void GroupBy::store_float(const PushedQuery::Result &result, uint64_t rows, teak_slice value, Field *to) {
  double sum;
  memcpy(&sum, value.data, std::min(value.len, sizeof(sum)));
  // Without groups the server begins with 0, so that the sum is not -0.
  if (query_->keys().empty()) sum += 0.0;
  if (result.kind == PushedQuery::Result::Kind::FloatAverage) sum /= static_cast<double>(rows);
  to->set_notnull();
  if (to->real_type() == MYSQL_TYPE_DOUBLE)
    float8store(to->ptr, sum);
  else
    to->store(sum);
}

bool GroupBy::store_sum(const PushedQuery::Result &result, uint64_t rows, teak_slice digits, Field *to) {
  std::string text(reinterpret_cast<const char *>(digits.data), digits.len);
  const size_t sign = text[0] == '-' ? 1 : 0;
  if (result.scale > 0) {
    const size_t digits_min = result.scale + 1 + sign;
    if (text.size() < digits_min) text.insert(sign, digits_min - text.size(), '0');
    text.insert(text.size() - result.scale, 1, '.');
  }
  my_decimal sum, count, average;
  if (str2my_decimal(E_DEC_FATAL_ERROR, text.data(), text.size(), &my_charset_latin1, &sum) != E_DEC_OK) return false;
  to->set_notnull();
  if (result.kind == PushedQuery::Result::Kind::Sum) {
    to->store_decimal(&sum);
    return true;
  }
  int2my_decimal(E_DEC_FATAL_ERROR, static_cast<longlong>(rows), false, &count);
  my_decimal_div(E_DEC_FATAL_ERROR, &average, &sum, &count, static_cast<int>(result.added_scale));
  to->store_decimal(&average);
  return true;
}

/* Whether the server would scan the whole table, or the partitions that it reads, and return groups in one step. */
bool scans_whole_table(const JOIN *join, bool *is_in_order) {
  if (join->table_count != 1 || join->const_tables != 0) return false;
  const JOIN_TAB *tab = join->join_tab;
  const bool has_range = (tab->select != nullptr && tab->select->quick != nullptr) || tab->quick != nullptr;
  // A scan in the order of the primary key for groups. With LIMIT the server would end it early.
  *is_in_order = tab->type == JT_NEXT && tab->index == tab->table->s->primary_key && tab->index != MAX_KEY &&
                 join->unit->lim.is_unlimited();
  return (tab->type == JT_ALL || *is_in_order) && tab->use_quick != 2 && !has_range && tab->bush_children == nullptr &&
         join->rollup.state == ROLLUP::STATE_NONE && !join->select_lex->have_window_funcs();
}

}  // namespace

group_by_handler *create_group_by(THD *thd, Query *query) try {
  const TABLE_LIST *from = query->from;
  if (!session_group_by_pushdown(thd) || query->distinct || from->next_local != nullptr || thd->lex->with_rownum ||
      thd->lex->limit_rows_examined != nullptr)
    return nullptr;
  TABLE *table = from->table;
  if (table->s->table_type == TABLE_TYPE_SEQUENCE) return nullptr;
  JOIN *join = from->select_lex != nullptr ? from->select_lex->join : nullptr;
  bool is_in_order;
  if (join == nullptr || !scans_whole_table(join, &is_in_order) || join->select_lex->limit_params.with_ties)
    return nullptr;
  // The server counts the stored results wrongly.
  if ((join->select_options & OPTION_FOUND_ROWS) != 0) return nullptr;
  std::vector<OpenTable *> tables = grouped_tables(table);
  if (tables.empty()) return nullptr;
  const Share &share = *tables.front()->share();
  auto pushed = std::make_unique<PushedQuery>(table, share.rows(), share.primary());
  if (!pushed->set(*query, (join->select_options & TMP_TABLE_ALL_COLUMNS) != 0)) return nullptr;
  // The server would merge the rows of partitions.
  if (is_in_order && tables.size() > 1 && pushed->depends_on_order()) return nullptr;
  // x < ALL (SELECT y ...) becomes x < (SELECT MIN(y) ...), and the server asks the item of MIN whether there were rows.
  if (pushed->has_extremes() && join->select_lex->master_unit()->item != nullptr) return nullptr;
  group_by_handler *handler = new GroupBy(thd, std::move(tables), join, std::move(pushed));
  query->where = nullptr;
  query->group_by = nullptr;
  return handler;
} catch (const std::bad_alloc &) {
  return nullptr;  // the server computes the query
}

}  // namespace teak
