//! Estimates of the entries of a run in a key range. Complete pages are counted by the index. If
//! the range spans few pages, the pages at its bounds are read, so that the estimate is exact. For
//! a longer range, these pages are used only if they are cached; otherwise the keys of a page are
//! assumed to be evenly distributed between the last keys of the previous page and of this page.

use super::{ReadPattern, Run, RunIndex};
use crate::Page;
use crate::cache::Cached;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::StorageResult;

/// Maximum pages of a short range, not counting the first.
const PAGES_OF_SHORT_RANGE: usize = 8;

impl Run {
    /// Estimates the entries in a range from the index block and from the pages at
    /// the range's ends. Exact when the range is short, which may read these pages
    /// from the file; otherwise only cached pages are used.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub fn estimate(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> StorageResult<u64> {
        estimate(self, lower, upper)
    }
}

fn estimate(run: &Run, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> StorageResult<u64> {
    let Some(index) = run.index()? else {
        return Ok(0);
    };
    let page_of = |bound| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(index.page_of(key)),
    };
    let first = page_of(lower).unwrap_or(0);
    let last = page_of(upper).unwrap_or(index.pages().len());
    let short = last.saturating_sub(first) <= PAGES_OF_SHORT_RANGE;
    let before = |key, through| entries_before(run, &index, key, through, short);
    let start = match lower {
        Bound::Unbounded => 0.0,
        Bound::Included(key) => before(key, false)?,
        Bound::Excluded(key) => before(key, true)?,
    };
    let end = match upper {
        Bound::Unbounded => count(&index, index.pages().len()),
        Bound::Included(key) => before(key, true)?,
        Bound::Excluded(key) => before(key, false)?,
    };
    let entries = (end - start).max(0.0).round();
    // Entries of a run fit 53 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(entries as u64)
}

fn count(index: &RunIndex, pages: usize) -> f64 {
    let pages = index.pages().iter().take(pages);
    pages.map(|page| f64::from(page.entries)).sum()
}

/// Entries before `key` or, with `through`, up to and including it. `read`: the
/// page may be read from the file.
fn entries_before(
    run: &Run,
    index: &RunIndex,
    key: &[u8],
    through: bool,
    read: bool,
) -> StorageResult<f64> {
    let number = index.page_of(key);
    let Some(record) = index.pages().get(number) else {
        return Ok(count(index, number));
    };
    let whole = count(index, number);
    let page = if read {
        Some(run.page(index, number, ReadPattern::Random)?)
    } else {
        match run.cache.get(run.file.file_id(), record.address.offset) {
            Some(Cached::Page(page)) => Some(page),
            _ => None,
        }
    };
    if let Some(page) = page {
        return Ok(whole + f64::from(u32::try_from(before_in(&page, key, through)).unwrap_or(0)));
    }
    let first = match number.checked_sub(1) {
        None => run.description.first_key.as_slice(),
        Some(before) => index.last_key(before),
    };
    let part = fraction(first, key, index.last_key(number));
    Ok(whole + f64::from(record.entries) * part)
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
