//! Prints the nanoseconds of memtable operations: `cargo bench -p teak-tree --bench memtable`.
//! Entries of 30 and 200 bytes fill a memtable of 16 MiB; the benches of reads and of two threads
//! use entries of 30 bytes. Keys ascend, ascend in interleaved sequences, or are scattered. They
//! have 8 bytes, or 16 bytes of which the first half is always the same.

// Benches may panic, and run where usize has 64 bits.
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod common;

use common::bench;
use std::hint::black_box;
use std::sync::Arc;
use std::thread::JoinHandle;
use teak_base::{Operation, WriteId};
use teak_tree::{Memtable, MemtableCursor, VersionCursor, Visit};

const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;

/// The key of a number.
type Order = fn(u64) -> u64;

/// A bijection of 64-bit numbers (the finaliser of splitmix64), so that
/// scattered keys are distinct.
fn scattered(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn ascending(number: u64) -> u64 {
    number
}

/// Four sequences, like four sessions that append to their own ranges.
fn interleaved(number: u64) -> u64 {
    ((number % 4) << 48) + number / 4
}

/// The entries of a bench.
#[derive(Clone, Copy)]
struct Shape {
    order: Order,
    entry_bytes: usize,
    long_keys: bool,
}

impl Shape {
    fn insert(self, memtable: &Memtable, number: u64) {
        const VALUE: [u8; 256] = [b'v'; 256];
        let mut key = [7u8; 16];
        key[8..].copy_from_slice(&(self.order)(number).to_be_bytes());
        let key = &key[if self.long_keys { 0 } else { 8 }..];
        let value = &VALUE[..self.entry_bytes - key.len()];
        memtable.insert(WriteId(1 + number / 100), Operation::Put, key, value);
    }

    /// A full memtable and the number of its entries.
    fn fill(self) -> (Arc<Memtable>, u64) {
        let memtable = Arc::new(Memtable::new());
        let mut count = 0;
        while memtable.bytes() < MEMTABLE_BYTES {
            self.insert(&memtable, count);
            count += 1;
        }
        (memtable, count)
    }
}

/// A memtable into which another thread also inserts.
struct Shared {
    memtable: Arc<Memtable>,
    other: Option<JoinHandle<()>>,
}

impl Shared {
    fn new(shape: Shape, count: u64) -> Self {
        let memtable = Arc::new(Memtable::new());
        let second = Arc::clone(&memtable);
        let insert = move || (0..count).for_each(|number| shape.insert(&second, number));
        Self {
            memtable,
            other: Some(std::thread::spawn(insert)),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(other) = self.other.take() {
            assert!(other.join().is_ok());
        }
    }
}

fn inserts() {
    let orders: [(&str, Order); 3] = [
        ("ascending", ascending),
        ("interleaved", interleaved),
        ("scattered", scattered),
    ];
    for entry_bytes in [30, 200] {
        for (name, order) in orders {
            for long_keys in [false, true] {
                let shape = Shape {
                    order,
                    entry_bytes,
                    long_keys,
                };
                let keys = if long_keys { "8+8" } else { "8" };
                let (_, count) = shape.fill();
                bench(
                    &format!("insert {name}, {entry_bytes} bytes, key {keys}"),
                    count,
                    Memtable::new,
                    |memtable, number| shape.insert(memtable, number),
                );
            }
        }
    }
}

fn concurrent_inserts() {
    let orders: [(&str, Order, Order); 2] = [
        ("ascending", |n| 2 * n, |n| 2 * n + 1),
        ("scattered", scattered, |n| scattered(!n)),
    ];
    for (name, order, other_order) in orders {
        let shape = Shape {
            order,
            entry_bytes: 30,
            long_keys: false,
        };
        let other = Shape {
            order: other_order,
            ..shape
        };
        bench(
            &format!("insert {name}, 30 bytes, next to another"),
            100_000,
            || Shared::new(other, 100_000),
            |shared, number| shape.insert(&shared.memtable, number),
        );
    }
}

fn reads() {
    let shape = Shape {
        order: scattered,
        entry_bytes: 30,
        long_keys: false,
    };
    let (memtable, count) = shape.fill();
    for (name, first) in [("present", 0), ("absent", count)] {
        bench(
            &format!("visit, {name}"),
            count,
            || (),
            |(), number| {
                let key = scattered(first + scattered(number) % count).to_be_bytes();
                black_box(memtable.visit(&key, &mut |_, _, value| {
                    black_box(value);
                    Visit::Stop
                }));
            },
        );
    }
    let first = || cursor_at(&memtable, |cursor| cursor.seek_first().is_ok());
    bench("cursor forward", count, first, |cursor, _| {
        black_box((cursor.key(), cursor.inline_value(), cursor.write_id()));
        assert!(cursor.next_version().is_ok());
    });
    let last = || cursor_at(&memtable, |cursor| cursor.seek_last().is_ok());
    bench("cursor backward", count, last, |cursor, _| {
        black_box((cursor.key(), cursor.inline_value(), cursor.write_id()));
        assert!(cursor.previous_key().is_ok());
    });
}

fn cursor_at(
    memtable: &Arc<Memtable>,
    seek: impl Fn(&mut MemtableCursor) -> bool,
) -> MemtableCursor {
    let mut cursor = memtable.cursor();
    assert!(seek(&mut cursor));
    cursor
}

fn main() {
    inserts();
    concurrent_inserts();
    reads();
}
