//! Rows and their index entries. Index 0 holds the rows by primary key, index 1
//! is unique and leads to the primary key, index 2 groups rows and ends with the
//! primary key.

use teak_disk::Random;
use teak_engine::Codec;
use teak_model::{Key, Value};

/// What the rows of a table look like.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) indexes: usize,
    /// Primary keys are drawn from so many.
    pub(crate) keys: u64,
    pub(crate) key_style: u64,
    pub(crate) payload_bytes_max: u64,
    pub(crate) codec: Codec,
    /// Leading bytes of values that the engine may keep column by column.
    pub(crate) value_fixed_bytes: u32,
}

/// A row's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) primary: u64,
    pub(crate) unique: u64,
    pub(crate) group: u64,
    pub(crate) payload: Vec<u8>,
}

/// One index's entry of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowEntry {
    pub(crate) index: u32,
    pub(crate) unique: bool,
    pub(crate) key: Key,
    pub(crate) value: Value,
}

impl Shape {
    pub(crate) fn draw_key(&self, random: &mut Random) -> u64 {
        random.below(self.keys)
    }

    pub(crate) fn draw_row(&self, random: &mut Random) -> Row {
        Row {
            primary: self.draw_key(random),
            // Few enough that duplicates happen, many enough that rows fit.
            unique: random.below(self.keys * 4),
            group: random.below(4),
            payload: self.draw_payload(random),
        }
    }

    pub(crate) fn draw_payload(&self, random: &mut Random) -> Vec<u8> {
        let bytes = random.below(self.payload_bytes_max + 1);
        let compressible = random.one_in(2);
        let mut payload = Vec::new();
        for _ in 0..bytes.div_ceil(8) {
            let word = if compressible {
                random.below(3)
            } else {
                random.next_u64()
            };
            payload.extend_from_slice(&word.to_le_bytes());
        }
        payload
    }

    /// Bytes of a key, in one of several styles.
    pub(crate) fn key(&self, number: u64) -> Key {
        match self.key_style {
            0 => number.to_be_bytes().to_vec(),
            1 => format!("{number}").into_bytes(),
            2 => {
                let filler = usize::try_from(number % 7).unwrap_or(0);
                let mut key = vec![b'k'; 40];
                key.extend_from_slice(&number.to_be_bytes());
                key.resize(48 + filler, 0xff);
                key
            }
            _ => {
                // Scattered, with zero bytes and common prefixes.
                let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut key = vec![0; usize::try_from(mixed % 3).unwrap_or(0)];
                key.extend_from_slice(&mixed.to_be_bytes());
                key
            }
        }
    }

    /// The entries of a row.
    pub(crate) fn entries(&self, row: &Row) -> Vec<RowEntry> {
        let primary = self.key(row.primary);
        let mut value = Vec::with_capacity(24 + row.payload.len());
        for number in [row.primary, row.unique, row.group] {
            value.extend_from_slice(&number.to_le_bytes());
        }
        value.extend_from_slice(&row.payload);
        let mut group = vec![b'g', u8::try_from(row.group % 256).unwrap_or(0)];
        group.extend_from_slice(&primary);
        let mut entries = vec![
            RowEntry {
                index: 0,
                unique: true,
                key: primary.clone(),
                value,
            },
            RowEntry {
                index: 1,
                unique: true,
                key: self.key(row.unique),
                value: primary,
            },
            RowEntry {
                index: 2,
                unique: false,
                key: group,
                value: Vec::new(),
            },
        ];
        entries.truncate(self.indexes);
        entries
    }
}

impl Row {
    /// The row of a value of index 0; `None` for bytes that no row has.
    pub(crate) fn decode(value: &[u8]) -> Option<Row> {
        let (primary, rest) = value.split_first_chunk()?;
        let (unique, rest) = rest.split_first_chunk()?;
        let (group, payload) = rest.split_first_chunk()?;
        Some(Row {
            primary: u64::from_le_bytes(*primary),
            unique: u64::from_le_bytes(*unique),
            group: u64::from_le_bytes(*group),
            payload: payload.to_vec(),
        })
    }
}
