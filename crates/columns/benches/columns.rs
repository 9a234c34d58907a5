//! Size and speed of the encodings, for series of some kinds: bytes for each value after compression by
//! zstd, of byte planes and of the encoded column, and the speed of encoding and decoding in GB/s of
//! values.
//!
//! `cargo bench -p teak-columns`
#![allow(
    clippy::indexing_slicing,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

use std::time::Instant;
use teak_base::Codec as Compression;
use teak_base::bytes::Take;
use teak_columns::{Codec, Column, Kind};

const VALUES: usize = 2000;
const ROUNDS: usize = 7;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let bits = self.0 ^ self.0 >> 29;
        bits.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ bits >> 32
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
    fn normal(&mut self) -> f64 {
        (0..12)
            .map(|_| self.below(1 << 20) as f64 / f64::from(1 << 20))
            .sum::<f64>()
            - 6.0
    }
}

fn series() -> Vec<(&'static str, Column, Vec<u8>)> {
    let column = |kind, width| Column::new(kind, width).unwrap();
    let mut random = Random(1);
    let mut time = 1_700_000_000_000u64;
    let times = (0..VALUES).flat_map(|_| {
        time += 60_000 + random.below(50);
        time.to_be_bytes()
    });
    let times: Vec<u8> = times.collect();
    let numbers = (0..VALUES as u64)
        .flat_map(|n| (n + 1000).to_be_bytes())
        .collect();
    let mut level = 20.0;
    let decimals = (0..VALUES).flat_map(|_| {
        level += random.normal() * 0.05;
        ((level * 100.0f64).round() / 100.0).to_le_bytes()
    });
    let decimals: Vec<u8> = decimals.collect();
    let prices = (0..VALUES)
        .flat_map(|_| ((random.below(1_000_000) as f64) / 100.0).to_le_bytes())
        .collect();
    let full = (0..VALUES)
        .flat_map(|n| (n as f64 / 10.0).sin().to_le_bytes())
        .collect();
    let quantities = (0..VALUES)
        .flat_map(|_| (random.below(50) as i32 + 1).to_le_bytes())
        .collect();
    let few = [19_920_102u32, 19_931_130, 19_980_215, 19_940_606];
    let dates = (0..VALUES)
        .flat_map(|_| few[random.below(4) as usize].to_le_bytes())
        .collect();
    let random_bytes = (0..VALUES)
        .flat_map(|_| random.next().to_le_bytes())
        .collect();
    vec![
        ("times with jitter", column(Kind::UnsignedBig, 8), times),
        ("consecutive numbers", column(Kind::UnsignedBig, 8), numbers),
        ("measurements, 2 decimals", column(Kind::Float, 8), decimals),
        ("prices, 2 decimals", column(Kind::Float, 8), prices),
        ("sine, all digits", column(Kind::Float, 8), full),
        (
            "quantities, 1 to 50",
            column(Kind::SignedLittle, 4),
            quantities,
        ),
        ("four dates", column(Kind::UnsignedLittle, 4), dates),
        ("random", column(Kind::UnsignedLittle, 8), random_bytes),
    ]
}

/// The best of some rounds, in GB/s.
fn speed(bytes: usize, mut work: impl FnMut()) -> f64 {
    let best = (0..ROUNDS)
        .map(|_| {
            let since = Instant::now();
            for _ in 0..100 {
                work();
            }
            since.elapsed().as_secs_f64() / 100.0
        })
        .fold(f64::INFINITY, f64::min);
    bytes as f64 / best / 1e9
}

fn main() {
    println!("| values | planes, bytes | column, bytes | encode, GB/s | decode, GB/s |");
    println!("|---|---|---|---|---|");
    for (name, column, values) in series() {
        let mut codec = Codec::default();
        codec.set_packing(true);
        let bytes_column = Column::new(Kind::Bytes, column.width() as u32).unwrap();
        let compressed = |encoded: &[u8]| {
            let mut out = Vec::new();
            match Compression::Zstd.compress(encoded, &mut out) {
                Compression::None => encoded.len(),
                _ => out.len(),
            }
        };
        let (mut planes, mut encoded) = (Vec::new(), Vec::new());
        codec.encode(bytes_column, &values, &mut planes);
        codec.encode(column, &values, &mut encoded);
        let encode = speed(values.len(), || {
            let mut out = Vec::with_capacity(values.len() + 64);
            codec.encode(column, &values, &mut out);
        });
        let mut rows = vec![0; values.len()];
        let decode = speed(values.len(), || {
            let mut take = Take::new(&encoded);
            codec
                .decode(column, VALUES, &mut take, &mut rows, |row| {
                    row * column.width()
                })
                .unwrap();
        });
        assert_eq!(rows, values);
        println!(
            "| {name} | {:.2} | {:.2} | {encode:.2} | {decode:.2} |",
            compressed(&planes) as f64 / VALUES as f64,
            compressed(&encoded) as f64 / VALUES as f64,
        );
    }
}
