//! The merge of sorted sources.

use crate::cancel::CHECK_ENTRIES;
use crate::entries::put_entry;
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::key_range::RangeEnd;
use crate::prefix::Prefix;
use crate::source::Source;
use crate::spill::{Spill, SpillDirectory, SpillWriter};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A source that is not at its end. The order is reversed: the source with the smallest key is the
/// maximum of the heap.
#[derive(Debug)]
struct Head {
    /// The prefix of the current key, which decides most comparisons.
    prefix: Prefix,
    source: Box<Source>,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_prefix = other.prefix.cmp(&self.prefix);
        by_prefix.then_with(|| {
            let (one, two) = (self.source.entry(), other.source.entry());
            two.map(|(key, _)| key).cmp(&one.map(|(key, _)| key))
        })
    }
}

/// The entries of several sources in the order of keys.
#[derive(Debug)]
pub(crate) struct Merge {
    heads: BinaryHeap<Head>,
    /// The merge ends before this key.
    end: Option<RangeEnd>,
}

impl Merge {
    pub(crate) fn new(sources: Vec<Source>) -> BulkLoadResult<Self> {
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for mut source in sources {
            if let Some(prefix) = source.advance()? {
                let source = Box::new(source);
                heads.push(Head { prefix, source });
            }
        }
        Ok(Self { heads, end: None })
    }

    /// A merge of entries from a key on, and before another one. No source is after entries of the
    /// range.
    pub(crate) fn of_range(
        sources: Vec<Source>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        stop: &dyn Fn() -> bool,
    ) -> BulkLoadResult<Self> {
        let mut heads = BinaryHeap::with_capacity(sources.len());
        let mut skipped = 0u64;
        for mut source in sources {
            while let Some(prefix) = source.advance()? {
                let key = source.entry().map(|(key, _)| key);
                if start.is_none_or(|start| key.is_some_and(|key| key >= start)) {
                    let source = Box::new(source);
                    heads.push(Head { prefix, source });
                    break;
                }
                skipped += 1;
                if skipped.is_multiple_of(CHECK_ENTRIES) && stop() {
                    return Err(BulkLoadError::Interrupted);
                }
            }
        }
        let end = end.map(RangeEnd::new);
        Ok(Self { heads, end })
    }

    /// Whether all entries were passed on.
    pub(crate) fn is_at_end(&self) -> bool {
        self.heads.is_empty()
    }

    /// Passes entries to `on_entry` until that returns false. Returns their number. Stops with
    /// an error when `stop` returns true.
    #[inline]
    pub(crate) fn pass<E: From<BulkLoadError>>(
        &mut self,
        stop: &dyn Fn() -> bool,
        on_entry: &mut impl FnMut(&[u8], &[u8]) -> Result<bool, E>,
    ) -> Result<u64, E> {
        let mut passed = 0u64;
        while let Some(mut top) = self.heads.peek_mut() {
            if passed.is_multiple_of(CHECK_ENTRIES) && stop() {
                return Err(BulkLoadError::Interrupted.into());
            }
            let mut continues = true;
            if let Some((key, value)) = top.source.entry() {
                let is_in_range = |end: &RangeEnd| end.is_after(&top.prefix, key);
                if !self.end.as_ref().is_none_or(is_in_range) {
                    break;
                }
                continues = on_entry(key, value)?;
            }
            passed += 1;
            match top.source.advance()? {
                Some(prefix) => top.prefix = prefix,
                None => drop(PeekMut::pop(top)),
            }
            if !continues {
                break;
            }
        }
        Ok(passed)
    }

    /// Appends entries to a batch until it has `bytes`. Returns their number.
    pub(crate) fn fill(
        &mut self,
        batch: &mut Vec<u8>,
        bytes: usize,
        stop: &dyn Fn() -> bool,
    ) -> BulkLoadResult<u64> {
        self.pass(stop, &mut |key, value| {
            put_entry(batch, key, value);
            Ok(batch.len() < bytes)
        })
    }

    /// Writes all entries to a spill file.
    pub(crate) fn spill(
        mut self,
        directory: &SpillDirectory,
        stop: &dyn Fn() -> bool,
    ) -> BulkLoadResult<(Spill, u64)> {
        let mut writer = SpillWriter::create(directory).map_err(BulkLoadError::Spill)?;
        let spilled = self.pass(stop, &mut |key, value| -> BulkLoadResult<bool> {
            writer.push(key, value).map_err(BulkLoadError::Spill)?;
            Ok(true)
        })?;
        let spill = writer.finish().map_err(BulkLoadError::Spill)?;
        Ok((spill, spilled))
    }
}
