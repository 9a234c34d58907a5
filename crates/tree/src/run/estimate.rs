//! Estimates of the entries of a run in a key range. Complete pages are counted by the index blocks
//! at the bounds. If the range spans few pages, the pages at its bounds are read, so that the
//! estimate is exact. For a longer range, these pages are used only if they are cached; otherwise
//! the keys of a page are assumed to be evenly distributed between the last keys of the previous
//! page and of this page.

use super::{IndexBlock, IndexTable, PageNumber, PrefixPlace, ReadPattern, Run};
use crate::Page;
use crate::cache::{Cached, Priority};
use crate::filter_keys::KeyPrefix;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::StorageResult;

/// Maximum pages of a short range, not counting the first.
const PAGES_OF_SHORT_RANGE: u64 = 8;

impl Run {
    /// Estimates the entries in a range from the index blocks and the pages at the
    /// range's ends. Exact when the range is short, which may read these pages
    /// from the file; otherwise only cached pages are used. `prefix`: that of all keys in the
    /// range. If a filter excludes it, the result is 0, and no page is read.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub(crate) fn estimate(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        prefix: Option<&KeyPrefix>,
    ) -> StorageResult<u64> {
        estimate(self, lower, upper, prefix)
    }
}

fn estimate(
    run: &Run,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    prefix: Option<&KeyPrefix>,
) -> StorageResult<u64> {
    let index = &run.description.index;
    if index.is_empty() {
        return Ok(0);
    }
    let place_of = |bound, near: Option<&Place>| match bound {
        Bound::Unbounded => Ok(None),
        Bound::Included(key) | Bound::Excluded(key) => Place::of(run, key, near).map(Some),
    };
    let first = place_of(lower, None)?;
    if let (Some(first), Some(prefix)) = (&first, prefix)
        && first.excludes(run, prefix)
    {
        return Ok(0);
    }
    let last = place_of(upper, first.as_ref())?;
    let page_of = |place: &Option<Place>| place.as_ref().map(|place| place.pages_before(index));
    let first_page = page_of(&first).unwrap_or(0);
    let last_page = page_of(&last).unwrap_or(index.pages());
    let short = last_page.saturating_sub(first_page) <= PAGES_OF_SHORT_RANGE;
    let before = |place: Option<Place>, key, through, otherwise| match place {
        Some(place) => place.entries_before(run, key, through, short),
        None => Ok(otherwise),
    };
    let start = match lower {
        Bound::Unbounded => 0.0,
        Bound::Included(key) => before(first, key, false, 0.0)?,
        Bound::Excluded(key) => before(first, key, true, 0.0)?,
    };
    let all = float(index.entries());
    let end = match upper {
        Bound::Unbounded => all,
        Bound::Included(key) => before(last, key, true, all)?,
        Bound::Excluded(key) => before(last, key, false, all)?,
    };
    let entries = (end - start).max(0.0).round();
    // Entries of a run fit 53 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(entries as u64)
}

/// Entries of a run fit 53 bits.
#[allow(clippy::cast_precision_loss)]
fn float(entries: u64) -> f64 {
    entries as f64
}

/// The page in which a key would be. If the key is after the last key of its index block, the
/// number is one past that of the last page of the block.
struct Place {
    block: Arc<IndexBlock>,
    number: PageNumber,
}

impl Place {
    /// `near`: a place whose index block may be that of the key.
    fn of(run: &Run, key: &[u8], near: Option<&Self>) -> StorageResult<Self> {
        let number = run.description.index.block_of(key);
        let block = match near {
            Some(near) if near.number.block == number => Arc::clone(&near.block),
            _ => run.index_block(number, ReadPattern::Random, Priority::High)?,
        };
        let page = block.page_of(key);
        Ok(Self {
            block,
            number: PageNumber::new(number, page),
        })
    }

    /// Whether the range or the filter of the run excludes a prefix. The filter is known only if
    /// the keys with the prefix begin in this index block.
    fn excludes(&self, run: &Run, prefix: &KeyPrefix) -> bool {
        match run.prefix_place(prefix) {
            PrefixPlace::None => true,
            PrefixPlace::Block { number, hash } if number == self.number.block => {
                !run.filter_passes(&self.block, hash)
            }
            PrefixPlace::Unknown | PrefixPlace::Block { .. } => false,
        }
    }

    fn pages_before(&self, index: &IndexTable) -> u64 {
        index.pages_before(self.number.block) + self.number.page as u64
    }

    /// Entries before `key` or, with `through`, up to and including it. `read`: the
    /// page may be read from the file.
    fn entries_before(
        &self,
        run: &Run,
        key: &[u8],
        through: bool,
        read: bool,
    ) -> StorageResult<f64> {
        let index = &run.description.index;
        let Self { block, number } = self;
        let whole = index.entries_before(number.block) + block.entries_before(number.page);
        let whole = float(whole);
        let Some(record) = block.pages().get(number.page) else {
            return Ok(whole);
        };
        let page = if read {
            Some(run.page_with_keys(block, *number)?)
        } else {
            match run.cache.peek(run.file.file_id(), record.address.offset) {
                Some(Cached::Page(page)) => Some(page),
                _ => None,
            }
        };
        if let Some(page) = page {
            return Ok(whole + float(before_in(&page, key, through) as u64));
        }
        let first = match (number.page.checked_sub(1), number.block) {
            (Some(before), _) => block.last_key(before),
            (None, 0) => run.description.first_key.as_slice(),
            (None, block) => index.bound_before(block),
        };
        let part = fraction(first, key, block.last_key(number.page));
        Ok(whole + f64::from(record.entries) * part)
    }
}

fn before_in(page: &Arc<Page>, key: &[u8], through: bool) -> usize {
    let mut entry = page.lower_bound(key);
    while through && entry < page.entries() && page.key(entry) == key {
        entry += 1;
    }
    entry
}

/// The relative position of `key` between `first` and `last`, from 0 to 1. The
/// bytes after the common prefix are read as a number.
fn fraction(first: &[u8], key: &[u8], last: &[u8]) -> f64 {
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |bytes: &[u8]| {
        let mut number = 0.0;
        for place in common..common + 8 {
            number = number * 256.0 + f64::from(bytes.get(place).copied().unwrap_or(0));
        }
        number
    };
    let width = number(last) - number(first);
    if width <= 0.0 {
        return 0.5;
    }
    ((number(key) - number(first)) / width).clamp(0.0, 1.0)
}
