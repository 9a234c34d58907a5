//! The groups of rows.
//!
//! The key of a group is bytes: for each of its parts whether it is NULL, and the number, or the length and the
//! weights of a byte string. Computing weights takes time, so the groups of byte strings that were seen are cached.

// Numbers of groups are those of groups that were found.
#![allow(clippy::indexing_slicing)]

use crate::arena::Arena;
use crate::batch::{Batch, Columns};
use crate::text_cache::TextCache;
use crate::texts::TextRules;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use teak_columns::{Vector, VectorValues};

/// Estimated memory of a group without its bytes: places in tables and lists.
const GROUP_BYTES: usize = 48;

/// Below this number, groups are not dropped.
const GROUPS_MIN: usize = 64;

/// A part of the key of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The column.
    pub column: usize,
    /// Whether its byte strings are compared by weights.
    pub is_weighed: bool,
}

/// A part of the key of a group: in the first row of the group that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// NULL.
    Null,
    /// A number.
    Number(i64),
    /// A byte string.
    Text(&'a [u8]),
}

/// The groups of this pass. Its hashes are at least `first_hash` and less than `end_hash`.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    hasher: DefaultHashBuilder,
    numbers: HashTable<u32>,
    hashes: Vec<u64>,
    keys: Arena,
    /// The bytes of the first row of each group, in the form of keys, if they differ from it.
    first_rows: Arena,
    /// The groups that were found for rows with weighed strings.
    cache: TextCache<Option<u32>>,
    first_hash: u64,
    /// `None`: there is no limit.
    end_hash: Option<u64>,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Sets the group of each row; drops the rows of groups of other passes.
    pub(crate) fn find<C: Columns>(
        &mut self,
        keys: &[Key],
        batch: &mut Batch<'_, C>,
        rules: &mut dyn TextRules,
        rows: &mut Vec<u32>,
        groups: &mut Vec<u32>,
    ) -> Result<(), C::Error> {
        for key in keys {
            batch.vector(key.column)?;
        }
        let vectors: Vec<&Vector> = keys
            .iter()
            .filter_map(|key| batch.loaded(key.column))
            .collect();
        let is_weighed = keys.iter().any(|key| key.is_weighed);
        let (mut bytes, mut weights) = (Vec::new(), Vec::new());
        groups.clear();
        rows.retain(|row| {
            bytes.clear();
            for vector in &vectors {
                put_part(vector, *row as usize, &mut bytes);
            }
            let group = match is_weighed {
                false => self.group_of(&bytes, None),
                true => self.group_of_weighed(keys, &bytes, &mut weights, rules),
            };
            groups.extend(group);
            group.is_some()
        });
        Ok(())
    }

    fn group_of_weighed(
        &mut self,
        keys: &[Key],
        bytes: &[u8],
        weights: &mut Vec<u8>,
        rules: &mut dyn TextRules,
    ) -> Option<u32> {
        if let Some(group) = self.cache.get(bytes) {
            return group;
        }
        weights.clear();
        put_weights(keys, bytes, weights, rules);
        let group = self.group_of(weights, Some(bytes));
        self.cache.insert(bytes, group);
        group
    }

    /// The group with a key. `first_row`: the bytes of the row, if the key has weights instead. `None` if the group
    /// belongs to another pass.
    fn group_of(&mut self, key: &[u8], first_row: Option<&[u8]>) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        if hash < self.first_hash || self.end_hash.is_some_and(|end| hash >= end) {
            return None;
        }
        let (keys, hashes) = (&self.keys, &self.hashes);
        let is_same = |number: &u32| keys.get(*number) == key;
        if let Some(number) = self.numbers.find(hash, is_same) {
            return Some(*number);
        }
        let number = u32::try_from(self.hashes.len()).ok()?;
        let hash_of = |number: &u32| hashes[*number as usize];
        self.numbers.insert_unique(hash, number, hash_of);
        self.hashes.push(hash);
        self.keys.push(key);
        if let Some(first_row) = first_row {
            self.first_rows.push(first_row);
        }
        Some(number)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.first_rows.memory_bytes() + self.len() * GROUP_BYTES
    }

    /// Drops about half of the groups, those with the largest hashes, and leaves them to another pass. Returns the
    /// numbers of those that remain, which are renumbered; `None` if too few groups would remain.
    pub(crate) fn drop_half(&mut self) -> Option<Vec<u32>> {
        if self.len() < GROUPS_MIN {
            return None;
        }
        let mut sorted = self.hashes.clone();
        let middle = sorted.len() / 2;
        let (_, end, _) = sorted.select_nth_unstable(middle);
        let end = *end;
        let numbered = (0u32..).zip(&self.hashes);
        let kept: Vec<u32> = numbered
            .filter(|(_, hash)| **hash < end)
            .map(|(number, _)| number)
            .collect();
        if kept.is_empty() {
            return None;
        }
        self.end_hash = Some(end);
        self.keys.retain(&kept);
        if !self.first_rows.is_empty() {
            self.first_rows.retain(&kept);
        }
        self.hashes = kept
            .iter()
            .map(|number| self.hashes[*number as usize])
            .collect();
        self.cache.clear();
        self.numbers = HashTable::new();
        for (number, hash) in (0u32..).zip(&self.hashes) {
            let hashes = &self.hashes;
            self.numbers
                .insert_unique(*hash, number, |number| hashes[*number as usize]);
        }
        Some(kept)
    }

    /// Removes all groups, and begins the pass for those that were left to it. Returns `false` if there are none.
    pub(crate) fn next_pass(&mut self) -> bool {
        let Some(end) = self.end_hash.take() else {
            return false;
        };
        self.clear();
        self.first_hash = end;
        true
    }

    /// Begins again with the first pass.
    pub(crate) fn restart(&mut self) {
        self.clear();
        self.first_hash = 0;
        self.end_hash = None;
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.hashes.clear();
        self.keys.clear();
        self.first_rows.clear();
        self.cache.clear();
    }

    /// The first `count` parts of the key of a group, in the order of the keys.
    pub(crate) fn parts(&self, group: u32, count: usize) -> Vec<KeyValue<'_>> {
        let bytes = match self.first_rows.is_empty() {
            true => self.keys.get(group),
            false => self.first_rows.get(group),
        };
        let mut parts = Parts { bytes };
        (0..count).map(|_| parts.take().0).collect()
    }
}

/// Appends a part of a key.
#[inline]
fn put_part(vector: &Vector, row: usize, out: &mut Vec<u8>) {
    if vector.is_null(row) {
        out.push(0);
        return;
    }
    match vector.values() {
        VectorValues::Numbers(numbers) => {
            out.push(1);
            out.extend_from_slice(&numbers[row].to_le_bytes());
        }
        VectorValues::Texts(texts) => put_text(texts.get(row), out),
    }
}

#[inline]
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(2);
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text);
}

/// Appends the bytes of a row with weights instead of the byte strings that are weighed.
fn put_weights(keys: &[Key], bytes: &[u8], out: &mut Vec<u8>, rules: &mut dyn TextRules) {
    let mut parts = Parts { bytes };
    let mut weights = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let (part, stored) = parts.take();
        match part {
            KeyValue::Text(text) if key.is_weighed => {
                weights.clear();
                rules.weigh(number, text, &mut weights);
                put_text(&weights, out);
            }
            _ => out.extend_from_slice(stored),
        }
    }
}

/// Reads the parts of a key.
struct Parts<'a> {
    bytes: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The next part, and its bytes.
    fn take(&mut self) -> (KeyValue<'a>, &'a [u8]) {
        let (value, len) = match self.bytes {
            [1, rest @ ..] => match rest.first_chunk::<8>() {
                Some(number) => (KeyValue::Number(i64::from_le_bytes(*number)), 9),
                None => (KeyValue::Null, 1),
            },
            [2, rest @ ..] => match rest.split_first_chunk::<4>() {
                Some((length, rest)) => {
                    let length = u32::from_le_bytes(*length) as usize;
                    let text = rest.get(..length).unwrap_or_default();
                    (KeyValue::Text(text), 5 + text.len())
                }
                None => (KeyValue::Null, 1),
            },
            _ => (KeyValue::Null, 1),
        };
        let (stored, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        (value, stored)
    }
}
