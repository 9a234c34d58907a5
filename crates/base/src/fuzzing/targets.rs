//! The targets of this crate.

use super::input::Input;
use super::target::Target;
use crate::Codec;
use crate::bytes::{Put, Take};
use crate::limits::BLOCK_RAW_BYTES_MAX;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    Target {
        name: "byte_codecs",
        run: byte_codecs,
        seeds: byte_codec_seeds,
    },
    Target {
        name: "codecs",
        run: codecs,
        seeds: codec_seeds,
    },
];

/// Decodes a sequence of integers, varints and byte strings.
fn byte_codecs(bytes: &[u8]) {
    let mut take = Take::new(bytes);
    while let Ok(kind) = take.u8() {
        let before = take.rest().len();
        let mut again = Vec::new();
        let taken = match kind % 6 {
            0 => take.u8().map(|value| again.put_u8(value)),
            1 => take.u16().map(|value| again.put_u16(value)),
            2 => take.u32().map(|value| again.put_u32(value)),
            3 => take.u64().map(|value| again.put_u64(value)),
            4 => take.varint().map(|value| {
                again.put_varint(value);
                assert_eq!(Take::new(&again).varint(), Ok(value));
            }),
            _ => take.bytes().map(|value| {
                assert!(value.len() <= before);
                again.put_bytes(value);
                assert_eq!(Take::new(&again).bytes(), Ok(value));
            }),
        };
        if taken.is_err() {
            break;
        }
        // The input may contain a varint that is longer than necessary.
        assert!(again.len() <= before - take.rest().len());
    }
}

fn byte_codec_seeds() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for value in [0, 1, 127, 128, 1 << 40, u64::MAX] {
        bytes.put_u8(3);
        bytes.put_u64(value);
        bytes.put_u8(4);
        bytes.put_varint(value);
    }
    bytes.put_u8(5);
    bytes.put_bytes(b"some bytes");
    vec![bytes]
}

/// Decompresses the input: a codec's number, the uncompressed size, and stored
/// bytes.
fn codecs(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let codec = input.u8();
    let raw_len = input.u32() as usize;
    let stored = input.rest();
    let Some(codec) = Codec::from_number(codec) else {
        return;
    };
    if let Ok(raw) = codec.decompress(stored, raw_len) {
        assert!(raw.len() == raw_len && raw_len <= BLOCK_RAW_BYTES_MAX);
        round_trip(codec, &raw);
    }
    round_trip(codec, stored);
}

fn round_trip(codec: Codec, raw: &[u8]) {
    let mut stored = Vec::new();
    let used = codec.compress(raw, &mut stored);
    assert!(used == codec || used == Codec::None);
    assert!(stored.len() <= raw.len());
    let again = used.decompress(&stored, raw.len());
    assert!(again.as_deref() == Ok(raw), "{used:?} restores its input");
}

fn codec_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for raw in [b"a row, a row, a row and a row; ".repeat(9), vec![0; 700]] {
        for codec in Codec::ALL {
            let mut seed = vec![0];
            seed.put_u32(u32::try_from(raw.len()).unwrap_or(0));
            let used = codec.compress(&raw, &mut seed);
            if let Some(number) = seed.first_mut() {
                *number = used.number();
            }
            seeds.push(seed);
        }
    }
    seeds
}
