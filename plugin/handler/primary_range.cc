/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See primary_range.h. */

#include "handler/primary_range.h"

#include "handler/key_bounds.h"

namespace teak {

namespace {

/* The comparisons of one column of the key. */
struct Column {
  Item *equal = nullptr, *low = nullptr, *high = nullptr;
  bool low_is_strict = false, high_is_strict = false;

  bool is_bounded() const { return low != nullptr || high != nullptr; }
};

class Comparisons {
 public:
  Comparisons(TABLE *table, const KEY &key) : table_(table), key_(key) {}

  /* Adds the comparisons of a condition. False: it has something else. */
  bool add(const Item *condition);
  const Column &column(uint part) const { return columns_[part]; }

 private:
  bool add_function(Item_func *function);
  Column *column_of(Item *item);

  TABLE *table_;
  const KEY &key_;
  Column columns_[MAX_REF_PARTS];
};

bool is_constant(Item *item) { return item->const_item() && !item->is_expensive(); }

bool set_once(Item **place, Item *item) {
  if (*place != nullptr || !is_constant(item)) return false;
  *place = item;
  return true;
}

bool Comparisons::add(const Item *condition) {
  Item *item = const_cast<Item *>(condition);  // the server's functions to read it are not const
  if (item->type() == Item::FUNC_ITEM) return add_function(static_cast<Item_func *>(item));
  if (item->type() != Item::COND_ITEM) return false;
  Item_cond *conjunction = static_cast<Item_cond *>(item);
  if (conjunction->functype() != Item_func::COND_AND_FUNC) return false;
  List_iterator_fast<Item> each(*conjunction->argument_list());
  while (const Item *part = each++)
    if (!add(part)) return false;
  return true;
}

/* The column of the key that the item is; nullptr: it is something else. */
Column *Comparisons::column_of(Item *item) {
  Item *real = item->real_item();
  if (real->type() != Item::FIELD_ITEM) return nullptr;
  const Field *field = static_cast<Item_field *>(real)->field;
  if (field->table != table_) return nullptr;
  for (uint part = 0; part < key_.user_defined_key_parts; part++)
    if (key_.key_part[part].field == field) return &columns_[part];
  return nullptr;
}

bool Comparisons::add_function(Item_func *function) {
  Item **arguments = function->arguments();
  if (function->functype() == Item_func::BETWEEN) {
    Column *column = column_of(arguments[0]);
    return column != nullptr && !static_cast<Item_func_between *>(function)->negated &&
           set_once(&column->low, arguments[1]) && set_once(&column->high, arguments[2]);
  }
  const Item_func::Functype type = function->functype();
  const bool is_less = type == Item_func::LT_FUNC || type == Item_func::LE_FUNC;
  const bool is_greater = type == Item_func::GT_FUNC || type == Item_func::GE_FUNC;
  if (type != Item_func::EQ_FUNC && !is_less && !is_greater) return false;
  Column *column = column_of(arguments[0]);
  const bool is_swapped = column == nullptr;
  if (is_swapped) column = column_of(arguments[1]);
  if (column == nullptr) return false;
  Item *constant = arguments[is_swapped ? 0 : 1];
  if (type == Item_func::EQ_FUNC) return set_once(&column->equal, constant);
  const bool is_strict = type == Item_func::LT_FUNC || type == Item_func::GT_FUNC;
  if (is_less != is_swapped) {
    column->high_is_strict = is_strict;
    return set_once(&column->high, constant);
  }
  column->low_is_strict = is_strict;
  return set_once(&column->low, constant);
}

/* Stores a constant in the field. False: the field cannot have this value, or values are not compared as its keys are. */
bool store_exactly(Item *constant, Field *field) {
  switch (field->type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG: {
      if (constant->cmp_type() != INT_RESULT) return false;
      const longlong value = constant->val_int();
      if (constant->null_value || field->store(value, constant->unsigned_flag) != 0) return false;
      const bool is_same_sign = value >= 0 || constant->unsigned_flag == field->is_unsigned();
      return is_same_sign && field->val_int() == value;
    }
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_DATETIME: {
      MYSQL_TIME wanted, stored;
      THD *thd = field->table->in_use;
      // The server compares such a column with a string as a date, too.
      if (constant->cmp_type() != TIME_RESULT && constant->cmp_type() != STRING_RESULT) return false;
      if (constant->get_date(thd, &wanted, Datetime::Options(TIME_CONV_NONE, thd))) return false;
      if (wanted.time_type != MYSQL_TIMESTAMP_DATE && wanted.time_type != MYSQL_TIMESTAMP_DATETIME) return false;
      if (field->store_time_dec(&wanted, TIME_SECOND_PART_DIGITS) != 0 ||
          field->get_date(&stored, Datetime::Options(TIME_CONV_NONE, thd)))
        return false;
      return pack_time(&wanted) == pack_time(&stored);
    }
    default:
      return false;
  }
}

/* Encodes a bound of the first `parts` columns, as they are in the record. */
bool encode(const KeyCodec &codec, TABLE *table, KEY *key, uint parts, ha_rkey_function flag, RangeEnd end,
            ByteBuffer *bytes, teak_slice *bound) {
  uchar image[MAX_KEY_LENGTH];
  key_copy(image, table->record[0], key, key->key_length);
  key_range range;
  range.key = image;
  range.length = key->key_length;
  range.keypart_map = make_prev_keypart_map(parts);
  range.flag = flag;
  return encode_bound(codec, range, end, bytes, bound);
}

}  // namespace

bool PrimaryRange::set(const Share &share, TABLE *table, const Item *condition) {
  clear();
  const uint number = share.primary_key();
  if (number == MAX_KEY) return false;
  KEY &key = table->key_info[number];
  Comparisons comparisons(table, key);
  if (!comparisons.add(condition)) return false;

  uint parts = 0;  // columns with one value
  const uint all = key.user_defined_key_parts;
  for (; parts < all && comparisons.column(parts).equal != nullptr; parts++) {
    if (comparisons.column(parts).is_bounded() || (key.key_part[parts].key_part_flag & HA_REVERSE_SORT) ||
        !store_exactly(comparisons.column(parts).equal, key.key_part[parts].field))
      return false;
  }
  for (uint part = parts + 1; part < all; part++)
    if (comparisons.column(part).equal != nullptr || comparisons.column(part).is_bounded()) return false;

  const Column none;
  const Column &bounded = parts < all ? comparisons.column(parts) : none;
  if (bounded.is_bounded() && (key.key_part[parts].key_part_flag & HA_REVERSE_SORT)) return false;
  // With a constant, a bound of the columns with one value and of the next one; without, of the columns with one value.
  auto set_bound = [&](Item *constant, ha_rkey_function flag, RangeEnd end, ByteBuffer *bytes, teak_slice *bound) {
    *bound = UNBOUNDED;
    if (constant == nullptr)
      return parts == 0 || encode(share.codec(number), table, &key, parts,
                                  end == RangeEnd::Lower ? HA_READ_KEY_OR_NEXT : HA_READ_AFTER_KEY, end, bytes, bound);
    return store_exactly(constant, key.key_part[parts].field) &&
           encode(share.codec(number), table, &key, parts + 1, flag, end, bytes, bound);
  };
  if (!set_bound(bounded.low, bounded.low_is_strict ? HA_READ_AFTER_KEY : HA_READ_KEY_OR_NEXT, RangeEnd::Lower,
                 &lower_bytes_, &lower_) ||
      !set_bound(bounded.high, bounded.high_is_strict ? HA_READ_BEFORE_KEY : HA_READ_AFTER_KEY, RangeEnd::Upper,
                 &upper_bytes_, &upper_))
    return false;
  // No key is after the maximum.
  if (bounded.low != nullptr && lower_.data == nullptr) return false;
  is_set_ = parts != 0 || bounded.is_bounded();
  return is_set_;
}

}  // namespace teak
