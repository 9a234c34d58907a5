//! A sort buffer: entries in memory that are sorted together.

use crate::entries::{entry_bytes_max, put_entry, take_entry};
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::memory::{HeldBytes, Piece};
use crate::prefix::{Prefix, prefix_of};
use std::cmp::Ordering;
use teak_base::bytes::{Malformed, Take};

/// Size of a piece of sorted entries, in bytes. A merge frees one after the other.
const PIECE_BYTES: usize = 256 << 10;

/// Minimum growth of the memory of a buffer, in bytes.
const GROWTH_BYTES_MIN: usize = 4 << 10;

/// Location of one entry in the buffer.
#[derive(Clone, Copy, Debug)]
struct Item {
    prefix: Prefix,
    offset: u32,
}

const ITEM_BYTES: usize = size_of::<Item>();

/// The bytes of entries, and the order of the entries.
#[derive(Debug)]
pub(crate) struct SortBuffer {
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// Maximum memory, unless one entry needs more.
    bytes_max: usize,
    /// Whether the entries were added in the order of their keys.
    is_ascending: bool,
    /// Whether no two entries have the same key, if they were added in order.
    is_strict: bool,
}

/// The entries of a buffer in the order of keys.
#[derive(Debug)]
pub(crate) struct SortedBuffer {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
    /// Whether the keys ascend strictly, as far as that is known without a comparison of all keys.
    pub(crate) is_strict: bool,
}

impl SortBuffer {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            items: Vec::new(),
            bytes_max,
            is_ascending: true,
            is_strict: true,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the entries were added in the order of their keys.
    pub(crate) fn is_ascending(&self) -> bool {
        self.is_ascending
    }

    /// Whether an entry can be added within the memory limit.
    #[inline]
    pub(crate) fn has_space(&self, key: &[u8], value: &[u8]) -> bool {
        let bytes = entry_bytes_max(key, value);
        (self.bytes.capacity() - self.bytes.len() >= bytes
            && self.items.len() < self.items.capacity())
            || self.can_grow(bytes)
    }

    fn memory(&self) -> usize {
        self.bytes.capacity() + self.items.capacity() * ITEM_BYTES
    }

    #[cold]
    fn can_grow(&self, bytes: usize) -> bool {
        let missing = (self.bytes.len() + bytes).saturating_sub(self.bytes.capacity());
        let item = usize::from(self.items.len() == self.items.capacity()) * ITEM_BYTES;
        self.memory() + missing + item <= self.bytes_max
    }

    /// Additional memory for a part that has `has` bytes and needs `needs` more: twice the present
    /// size, within the limit.
    fn growth(&self, has: usize, needs: usize) -> usize {
        let left = self.bytes_max.saturating_sub(self.memory());
        has.max(GROWTH_BYTES_MIN).min(left).max(needs)
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// `Internal` when its offset does not fit in 32 bits.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> BulkLoadResult<()> {
        let Ok(offset) = u32::try_from(self.bytes.len()) else {
            return Err(BulkLoadError::Internal("an entry is too large"));
        };
        let bytes = entry_bytes_max(key, value);
        if self.bytes.capacity() - self.bytes.len() < bytes {
            let growth = self.growth(self.bytes.capacity(), bytes);
            self.bytes.reserve_exact(growth);
        }
        if self.items.len() == self.items.capacity() {
            let growth = self.growth(self.items.capacity() * ITEM_BYTES, ITEM_BYTES);
            self.items.reserve_exact((growth / ITEM_BYTES).max(1));
        }
        let prefix = prefix_of(key);
        if self.is_ascending
            && let Some(last) = self.items.last()
        {
            let by_prefix = last.prefix.cmp(&prefix);
            match by_prefix.then_with(|| key_at(&self.bytes, last).cmp(key)) {
                Ordering::Less => {}
                Ordering::Equal => self.is_strict = false,
                Ordering::Greater => self.is_ascending = false,
            }
        }
        put_entry(&mut self.bytes, key, value);
        self.items.push(Item { prefix, offset });
        Ok(())
    }

    /// Removes all entries and returns them in the order of their keys. A merge of several buffers
    /// then reads each from its start to its end, and not at random places in memory. `None` if
    /// there are none.
    pub(crate) fn take_sorted(
        &mut self,
        held: &HeldBytes,
    ) -> Result<Option<SortedBuffer>, Malformed> {
        if self.items.is_empty() {
            return Ok(None);
        }
        let is_ascending = self.is_ascending;
        if !is_ascending {
            let bytes = &self.bytes;
            self.items.sort_unstable_by(|one, other| {
                let by_prefix = one.prefix.cmp(&other.prefix);
                by_prefix.then_with(|| key_at(bytes, one).cmp(key_at(bytes, other)))
            });
        }
        let key_of =
            |item: Option<&Item>| item.map_or_else(Vec::new, |i| key_at(&self.bytes, i).to_vec());
        let (first, last) = (key_of(self.items.first()), key_of(self.items.last()));
        let pieces = match is_ascending {
            true => {
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.shrink_to_fit();
                vec![Piece::new(bytes, held)]
            }
            false => copy_in_order(&self.bytes, &self.items, held)?,
        };
        let sorted = SortedBuffer {
            pieces,
            first,
            last,
            is_strict: is_ascending && self.is_strict,
        };
        self.clear();
        Ok(Some(sorted))
    }

    /// Removes all entries. Frees memory that the entries did not use: the next entries may need
    /// it for the other part.
    fn clear(&mut self) {
        if self.bytes.len() < self.bytes.capacity() / 2 || self.bytes.capacity() > self.bytes_max {
            self.bytes = Vec::new();
        }
        if self.items.len() < self.items.capacity() / 2 {
            self.items = Vec::new();
        }
        self.bytes.clear();
        self.items.clear();
        (self.is_ascending, self.is_strict) = (true, true);
    }
}

/// Copies entries in the order of the items.
fn copy_in_order(bytes: &[u8], items: &[Item], held: &HeldBytes) -> Result<Vec<Piece>, Malformed> {
    let mut pieces = Vec::with_capacity(bytes.len() / PIECE_BYTES + 1);
    let mut left = bytes.len();
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE_BYTES.min(left));
    for item in items {
        let start = bytes.get(item.offset as usize..).unwrap_or_default();
        let mut take = Take::new(start);
        take_entry(&mut take)?;
        let length = start.len() - take.rest().len();
        let entry = start.get(..length).unwrap_or_default();
        if piece.capacity() - piece.len() < length {
            if !piece.is_empty() {
                pieces.push(Piece::new(std::mem::take(&mut piece), held));
            }
            piece = Vec::with_capacity(PIECE_BYTES.min(left).max(length));
        }
        piece.extend_from_slice(entry);
        left -= length;
    }
    pieces.push(Piece::new(piece, held));
    Ok(pieces)
}

#[inline]
fn key_at<'a>(bytes: &'a [u8], item: &Item) -> &'a [u8] {
    let start = bytes.get(item.offset as usize..).unwrap_or_default();
    Take::new(start).bytes().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::entries::EntryReader;
    use std::sync::atomic::Ordering::Relaxed;

    fn entries(sorted: &SortedBuffer) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for piece in &sorted.pieces {
            let mut reader = EntryReader::new(piece.bytes().to_vec());
            while reader.advance().unwrap() {
                keys.push(reader.entry().unwrap().0.to_vec());
            }
        }
        keys
    }

    #[test]
    fn a_buffer_uses_its_memory_and_not_more() {
        let held = HeldBytes::default();
        let mut buffer = SortBuffer::new(1 << 20);
        for (round, length) in [8usize, 200, 2, 8].into_iter().enumerate() {
            let mut count = 0u64;
            let key = |n: u64| (n ^ 0xff).to_be_bytes();
            while buffer.has_space(&key(count), &vec![7; length]) {
                buffer.push(&key(count), &vec![7; length]).unwrap();
                count += 1;
                assert!(buffer.memory() <= 1 << 20);
            }
            let used = buffer.bytes.len() + buffer.items.len() * ITEM_BYTES;
            assert!(used > (1 << 20) / 2, "{used} in round {round}");
            let sorted = buffer.take_sorted(&held).unwrap().unwrap();
            assert!(entries(&sorted).is_sorted());
            assert_eq!(entries(&sorted).len() as u64, count);
            let bytes: usize = sorted.pieces.iter().map(|piece| piece.bytes().len()).sum();
            assert!(held.load(Relaxed) >= bytes);
            assert!(buffer.take_sorted(&held).unwrap().is_none());
        }
        assert_eq!(held.load(Relaxed), 0);
    }

    #[test]
    fn entries_added_in_order_are_not_copied() {
        let held = HeldBytes::default();
        let mut buffer = SortBuffer::new(1 << 20);
        for n in 0..100u32 {
            buffer.push(&n.to_be_bytes(), &[]).unwrap();
        }
        let at = buffer.bytes.as_ptr();
        assert!(buffer.is_ascending());
        buffer.bytes.shrink_to_fit();
        let moved = buffer.bytes.as_ptr() != at;
        let sorted = buffer.take_sorted(&held).unwrap().unwrap();
        assert!(sorted.is_strict && sorted.pieces.len() == 1);
        assert!(moved || sorted.pieces.first().unwrap().bytes().as_ptr() == at);
        buffer.push(b"a", &[1]).unwrap();
        buffer.push(b"a", &[0]).unwrap();
        let sorted = buffer.take_sorted(&held).unwrap().unwrap();
        assert!(!sorted.is_strict);
        assert_eq!(
            (sorted.first.as_slice(), sorted.last.as_slice()),
            (b"a".as_slice(), b"a".as_slice())
        );
    }

    #[test]
    fn an_entry_larger_than_the_buffer_is_accepted_alone() {
        let held = HeldBytes::default();
        let mut buffer = SortBuffer::new(100);
        let value = vec![1; 1000];
        assert!(!buffer.has_space(b"k", &value) && buffer.is_empty());
        buffer.push(b"k", &value).unwrap();
        assert!(!buffer.has_space(b"", b""));
        assert_eq!(
            entries(&buffer.take_sorted(&held).unwrap().unwrap()).len(),
            1
        );
        assert!(buffer.memory() <= 1000);
    }
}
