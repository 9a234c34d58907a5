//! Reading several rows of a page together.

use super::{CursorPosition, TreeCursor};
use crate::key_search::key_order;
use crate::merge::heap::Direction;
use crate::source::Source;
use crate::{Page, VersionCursor};
use teak_base::visibility::Visibility;

/// Consecutive rows that a reader sees, in one page.
#[derive(Clone, Copy, Debug)]
pub struct PageRows<'a> {
    page: &'a Page,
    first: usize,
    len: usize,
}

impl<'a> PageRows<'a> {
    /// The number of rows, at least one.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // It is never empty.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The key and the value of a row.
    ///
    /// # Panics
    /// When the page has no such row.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> (&'a [u8], &'a [u8]) {
        let entry = self.first + row;
        (self.page.key(entry), self.page.value(entry))
    }

    /// Drops the rows after the last one for which `is_within` is true. It must be true for the
    /// first row; for the others, only if it is true for all before them.
    #[inline]
    pub fn limit(&mut self, is_within: impl Fn(&[u8]) -> bool) {
        let key = |row: usize| self.page.key(self.first + row);
        if is_within(key(self.len - 1)) {
            return;
        }
        let (mut within, mut beyond) = (0, self.len - 1);
        while beyond - within > 1 {
            let middle = usize::midpoint(within, beyond);
            match is_within(key(middle)) {
                true => within = middle,
                false => beyond = middle,
            }
        }
        self.len = within + 1;
    }
}

impl<V: Visibility> TreeCursor<V> {
    /// The source with the row at the position, if the following rows may be those of its page.
    #[inline]
    fn source_of_rows(&self) -> Option<usize> {
        match self.position {
            CursorPosition::Source(index)
                if self.heap.top() == Some(index)
                    && self.layers.is_empty()
                    && self.direction == Direction::Forward
                    && self.is_within_range(index)
                    && !self.must_follow() =>
            {
                Some(index)
            }
            _ => None,
        }
    }

    /// The key at which another source of the leaf has rows, too.
    #[inline]
    fn key_of_others(&self) -> Option<&[u8]> {
        let second = self.heap.second(&self.sources)?;
        self.sources.get(second).map(Source::key)
    }

    /// The page of a source and the number of the entry, if the reader sees all entries of the page.
    /// The cursor is on one of them, so the visibility of their write is known.
    #[inline]
    fn seen_page(&self, source: usize) -> Option<(&Page, usize)> {
        let (page, entry, id) = self.sources.get(source)?.page_of_one_write()?;
        let is_seen = id.is_settled() || self.last_visibility == (id, true);
        is_seen.then_some((page, entry))
    }

    /// Moves the only source of the leaf to its next key, if that is in a page of which the reader sees
    /// all entries. Otherwise returns `false` and does not move. The fast path of scans.
    #[inline]
    pub(super) fn next_in_page(&mut self, source: usize) -> bool {
        let Some((page, entry)) = self.seen_page(source) else {
            return false;
        };
        entry + 1 < page.entries()
            && self
                .sources
                .get_mut(source)
                .is_some_and(|source| source.pass_in_page(1))
    }

    /// The row at the position and those that follow it in its page, at most `max`, if the reader
    /// sees all of them without further checks; otherwise `None`. Does not move the cursor. Whether there are such rows
    /// may change between two calls, because other threads write: see [`TreeCursor::counted_page_rows`].
    #[inline]
    #[must_use]
    pub fn page_rows(&self, max: usize) -> Option<PageRows<'_>> {
        let (page, first) = self.seen_page(self.source_of_rows()?)?;
        let len = max.min(page.entries() - first);
        if len == 0 {
            return None;
        }
        let mut rows = PageRows { page, first, len };
        rows.limit(|key| !self.is_past_limit(key));
        if let Some(others) = self.key_of_others() {
            let precedes = |key: &[u8]| key_order(key, others).is_lt();
            if !precedes(page.key(first)) {
                return None;
            }
            rows.limit(precedes);
        }
        Some(rows)
    }

    /// The first `len` of the rows that [`TreeCursor::page_rows`] has returned since the last move, whatever other threads
    /// have written in the meantime. `None` if the page does not have so many.
    #[inline]
    #[must_use]
    pub fn counted_page_rows(&self, len: usize) -> Option<PageRows<'_>> {
        let CursorPosition::Source(index) = self.position else {
            return None;
        };
        let (page, first, _) = self.sources.get(index)?.page_of_one_write()?;
        (len <= page.entries() - first).then_some(PageRows { page, first, len })
    }

    /// Moves forward over rows of the page, fewer than those that [`TreeCursor::page_rows`] has
    /// returned. If the page has fewer rows, returns `false` and does not move.
    #[inline]
    pub fn pass_page_rows(&mut self, rows: usize) -> bool {
        let source = match self.position {
            CursorPosition::Source(index) => self.sources.get_mut(index),
            _ => None,
        };
        let has_passed = source.is_some_and(|source| source.pass_in_page(rows));
        if has_passed && self.heap.len() > 1 {
            self.heap.top_moved(&self.sources);
        }
        has_passed
    }
}
