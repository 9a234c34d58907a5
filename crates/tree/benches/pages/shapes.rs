//! The entries of the bench: rows of the benchmark tables as the plugin stores them, approximately,
//! entries of a secondary index, and random bytes.

use crate::committed::scatter;
use teak_bench::shapes::Shape;
use teak_bench::text::{Form, RowWriter};

/// The entries of a run, in key order.
pub struct Entries {
    pub name: &'static str,
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Leading bytes of the values that are columns of fixed width.
    pub value_planes: u32,
}

/// The entries of all shapes, each of about `bytes`.
pub fn all(bytes: usize) -> Vec<Entries> {
    vec![
        table("star rows", Shape::Star, bytes / 135),
        table("sensor rows", Shape::Sensor, bytes / 34),
        scattered("secondary entries", 24, 0, bytes / 24),
        scattered("random rows", 16, 200, bytes / 216),
        scattered("half random rows", 16, 100, bytes / 116),
    ]
}

/// Rows of a table in the order of an eight-byte key. Columns that have digits only have a fixed
/// width and are the first ones of the value; the others are stored with their lengths.
fn table(name: &'static str, shape: Shape, rows: usize) -> Entries {
    let mut out = RowWriter::new(Vec::new(), Form::Load { separator: b'\t' });
    shape.write(rows as u64, 1, &mut out).unwrap();
    let text = String::from_utf8(out.finish().unwrap()).unwrap();
    let number = |field: &str| -> Option<u64> {
        let digits: String = field.chars().filter(|c| !"-: .".contains(*c)).collect();
        digits.parse().ok()
    };
    let columns = text
        .lines()
        .next()
        .map_or(0, |line| line.split('\t').count());
    let mut widths = vec![Some(4); columns];
    for line in text.lines() {
        for (width, field) in widths.iter_mut().zip(line.split('\t')) {
            *width = match (number(field), *width) {
                (Some(number), Some(width)) if number < 1 << 32 => Some(width),
                (Some(_), Some(_)) => Some(8),
                _ => None,
            };
        }
    }
    let row = |(key, line): (usize, &str)| {
        let (mut fixed, mut rest) = (Vec::new(), Vec::new());
        for (width, field) in widths.iter().zip(line.split('\t')) {
            match width {
                Some(width) => {
                    let bytes = number(field).unwrap_or(0).to_be_bytes();
                    fixed.extend_from_slice(&bytes[8 - width..]);
                }
                None => {
                    rest.push(field.len() as u8);
                    rest.extend_from_slice(field.as_bytes());
                }
            }
        }
        fixed.append(&mut rest);
        ((key as u64).to_be_bytes().to_vec(), fixed)
    };
    Entries {
        name,
        entries: text.lines().enumerate().map(row).collect(),
        value_planes: widths.iter().flatten().sum::<usize>() as u32,
    }
}

/// Random keys. Entries without a value share the first eight bytes with about 20 others. Values of
/// 200 bytes are random; half of the bytes of others are.
fn scattered(name: &'static str, key_bytes: usize, value_bytes: usize, rows: usize) -> Entries {
    let bytes = |seed: u64, count: usize| -> Vec<u8> {
        let words = (0..count.div_ceil(8) as u64).map(|word| scatter(seed * 64 + word));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
        bytes.truncate(count);
        bytes
    };
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = (0..rows as u64)
        .map(|row| {
            let mut key = bytes(row, key_bytes);
            if value_bytes == 0 {
                key[..8].copy_from_slice(&scatter(row % (rows as u64 / 20).max(1)).to_be_bytes());
            }
            let mut value = bytes(row + (1 << 40), value_bytes);
            if value_bytes != 200 {
                value
                    .chunks_exact_mut(16)
                    .for_each(|chunk| chunk[..8].fill(b'v'));
            }
            (key, value)
        })
        .collect();
    entries.sort();
    Entries {
        name,
        entries,
        value_planes: 0,
    }
}
