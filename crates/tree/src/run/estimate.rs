//! How many entries of a run lie in a key range: whole pages count whole. A page
//! that a bound cuts is read when the range spans few pages,
//! so that short ranges are counted exactly; of a longer range it is looked into
//! when it is in the cache, else its keys are taken to be spread evenly between
//! its fences.

use super::{ReadMode, Run, RunIndex};
use crate::Page;
use crate::cache::Cached;
use std::ops::Bound;
use std::sync::Arc;
use teak_base::StorageResult;

/// Pages that a short range spans at most, beside the first.
const PAGES_OF_SHORT_RANGE: usize = 8;

pub(super) fn estimate(run: &Run, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> StorageResult<u64> {
    let Some(index) = run.index()? else {
        return Ok(0);
    };
    let pages = index.pages().len();
    let page_of = |bound, unbounded| match bound {
        Bound::Unbounded => unbounded,
        Bound::Included(key) | Bound::Excluded(key) => index.page_of(key),
    };
    let (first, last) = (page_of(lower, 0), page_of(upper, pages));
    let short = last.saturating_sub(first) <= PAGES_OF_SHORT_RANGE;
    let first_page = page_for(run, &index, first, short)?;
    let last_page = match &first_page {
        Some(page) if last == first => Some(Arc::clone(page)),
        _ => page_for(run, &index, last, short)?,
    };
    let before = |number, page: &Option<Arc<Page>>, key, through| {
        entries_before(run, &index, number, page.as_deref(), key, through)
    };
    // Pages before the first count on neither side.
    let end = match upper {
        Bound::Unbounded => 0.0,
        Bound::Included(key) => before(last, &last_page, key, true),
        Bound::Excluded(key) => before(last, &last_page, key, false),
    };
    let start = match lower {
        Bound::Unbounded => 0.0,
        Bound::Included(key) => before(first, &first_page, key, false),
        Bound::Excluded(key) => before(first, &first_page, key, true),
    };
    let between = index.pages().get(first..last).unwrap_or_default();
    let between: f64 = between.iter().map(|page| f64::from(page.entries)).sum();
    let entries = (between + end - start).max(0.0).round();
    // Entries of a run fit 53 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(entries as u64)
}

/// A page that a bound cuts. `read`: also one that is not in the cache.
fn page_for(
    run: &Run,
    index: &RunIndex,
    number: usize,
    read: bool,
) -> StorageResult<Option<Arc<Page>>> {
    let Some(record) = index.pages().get(number) else {
        return Ok(None);
    };
    if read {
        return run.page(index, number, ReadMode::Cached).map(Some);
    }
    Ok(
        match run.cache.get(run.file.file_id(), record.address.offset) {
            Some(Cached::Page(page)) => Some(page),
            _ => None,
        },
    )
}

/// Entries of page `number` before `key`, or, with `through`, before and at it.
fn entries_before(
    run: &Run,
    index: &RunIndex,
    number: usize,
    page: Option<&Page>,
    key: &[u8],
    through: bool,
) -> f64 {
    let Some(record) = index.pages().get(number) else {
        return 0.0;
    };
    if let Some(page) = page {
        return f64::from(u32::try_from(before_in(page, key, through)).unwrap_or(0));
    }
    let first = match number.checked_sub(1) {
        None => run.description.first_key.as_slice(),
        Some(before) => index.last_key(before),
    };
    f64::from(record.entries) * fraction(first, key, index.last_key(number))
}

fn before_in(page: &Page, key: &[u8], through: bool) -> usize {
    let mut entry = page.lower_bound(key);
    while through && entry < page.entries() && page.key(entry) == key {
        entry += 1;
    }
    entry
}

/// Where `key` lies between `first` and `last`, from 0 to 1, reading the bytes
/// behind the common prefix as a number.
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
