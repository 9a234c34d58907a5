//! The bytes of one file: the current ones, the durable ones, and the changes
//! between the two.

use crate::random::Random;

/// The unit that a device writes atomically.
const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Debug, Default)]
pub(super) struct Content {
    /// Open handles.
    pub handles: usize,
    /// The end of the reserved space; a power loss does not change it.
    reserved: u64,
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

/// The effect of a power loss on a change.
enum CrashEffect {
    Lost,
    Kept,
    Torn,
}

impl Content {
    /// The current bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.current
    }

    /// The space of the file on the disk, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.reserved.max(self.current.len() as u64)
    }

    pub fn reserve(&mut self, bytes: u64) {
        self.reserved = self.reserved.max(bytes);
    }

    /// Bytes of unsynced writes.
    pub fn unsynced_bytes(&self) -> u64 {
        let bytes = |change: &Change| match change {
            Change::Write { bytes, .. } => bytes.len() as u64,
            Change::Length(_) => 0,
        };
        self.unsynced.iter().map(bytes).sum()
    }

    /// Writes bytes. Returns false if the file would be too large for memory.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> bool {
        let Some(offset) = usize::try_from(offset)
            .ok()
            .filter(|offset| offset.checked_add(bytes.len()).is_some())
        else {
            return false;
        };
        if !bytes.is_empty() {
            put(&mut self.current, offset, bytes);
            self.unsynced.push(Change::Write {
                offset,
                bytes: bytes.to_vec(),
            });
        }
        true
    }

    /// Changes the length and frees reserved space. Returns false if the file would be too large
    /// for memory.
    pub fn set_length(&mut self, bytes: u64) -> bool {
        let Ok(length) = usize::try_from(bytes) else {
            return false;
        };
        self.current.resize(length, 0);
        self.reserved = 0;
        self.unsynced.push(Change::Length(length));
        true
    }

    /// Makes all changes durable.
    pub fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            apply(&mut self.durable, &change);
        }
    }

    /// Makes some changes durable and drops the others.
    pub fn drop_unsynced(&mut self, random: &mut Random) {
        for change in std::mem::take(&mut self.unsynced) {
            if random.one_in(2) {
                apply(&mut self.durable, &change);
            }
        }
    }

    /// Inverts a bit, durably. Returns false beyond the end.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        let Ok(offset) = usize::try_from(offset) else {
            return false;
        };
        let mask = 1u8 << (bit & 7);
        let flip = |byte: Option<&mut u8>| byte.map(|byte| *byte ^= mask).is_some();
        for change in &mut self.unsynced {
            if let Change::Write {
                offset: start,
                bytes,
            } = change
                && let Some(index) = offset.checked_sub(*start)
            {
                flip(bytes.get_mut(index));
            }
        }
        flip(self.durable.get_mut(offset));
        flip(self.current.get_mut(offset))
    }

    /// A possible state after a power loss.
    pub fn after_power_loss(&self, random: &mut Random) -> Content {
        let mut bytes = self.durable.clone();
        // Some crashes keep or lose all changes of a file, because both outcomes are common.
        let style = random.below(4);
        for change in &self.unsynced {
            let effect = match (style, random.below(4)) {
                (0, _) | (2 | 3, 0) => CrashEffect::Lost,
                (1, _) | (2 | 3, 1 | 2) => CrashEffect::Kept,
                _ => CrashEffect::Torn,
            };
            match (effect, change) {
                (CrashEffect::Kept, change) => apply(&mut bytes, change),
                (CrashEffect::Torn, Change::Write { offset, bytes: new }) => {
                    tear(&mut bytes, *offset, new, random);
                }
                (CrashEffect::Lost, Change::Write { offset, bytes: new }) => {
                    // The new length may survive even if the bytes are lost.
                    let end = offset + new.len();
                    if style != 0 && random.one_in(4) && bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                }
                (CrashEffect::Lost | CrashEffect::Torn, Change::Length(_)) => {}
            }
        }
        Content {
            handles: 0,
            reserved: self.reserved,
            current: bytes.clone(),
            durable: bytes,
            unsynced: Vec::new(),
        }
    }
}

fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    if let Some(target) = into.get_mut(offset..end) {
        target.copy_from_slice(bytes);
    }
}

fn apply(into: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => put(into, *offset, bytes),
        Change::Length(length) => into.resize(*length, 0),
    }
}

/// Writes some of the sectors: the first ones, the last ones, or a random subset.
fn tear(into: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut Random) {
    let style = random.below(3);
    let edge = random.below(bytes.len() as u64 + 1);
    let mut done = 0u64;
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = offset as u64 + done;
        let to_boundary = SECTOR_BYTES - at % SECTOR_BYTES;
        let length = usize::try_from(to_boundary).map_or(rest.len(), |n| n.min(rest.len()));
        let (sector, after) = rest.split_at(length);
        let kept = match style {
            0 => done < edge,
            1 => done >= edge,
            _ => random.one_in(2),
        };
        if kept {
            put(into, offset + (bytes.len() - rest.len()), sector);
        }
        done += sector.len() as u64;
        rest = after;
    }
}
