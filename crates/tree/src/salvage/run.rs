//! A forward cursor over a run that skips the pages it cannot read.

use crate::cache::Priority;
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{KeyRange, RunForm, RunRef};
use crate::run::{IndexBlock, PageNumber};
use crate::{Page, ReadPattern, StoredValue};
use std::sync::Arc;
use teak_base::bytes::key_successor;
use teak_base::{Operation, StorageResult, WriteId};

/// A cursor over the part of a run to which a node refers.
pub(super) struct SalvageRun {
    run: RunRef,
    /// The index block of the position and its number.
    block: Option<(usize, Arc<IndexBlock>)>,
    /// The page of the position and its number.
    page: Option<(PageNumber, Arc<Page>)>,
    entry: usize,
    /// What could not be read since the last seek.
    lost: Vec<LostPart>,
}

impl SalvageRun {
    pub(super) fn new(run: &RunRef) -> Self {
        Self {
            run: run.clone(),
            block: None,
            page: None,
            entry: 0,
            lost: Vec::new(),
        }
    }

    /// Moves to the newest version of the first readable key at or after `key`.
    pub(super) fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.page = None;
        self.lost.clear();
        let clip = self.run.clip.clone();
        let lower = clip.as_ref().map_or(key, |clip| key.max(&clip.lower));
        let index = &self.run.handle.description().index;
        if index.is_empty() {
            return Ok(());
        }
        let number = index.block_of(lower);
        let first = match self.read_block(number)? {
            Some(block) => PageNumber::new(number, block.page_of(lower)),
            None => PageNumber::new(number + 1, 0),
        };
        self.load_from(first)?;
        if let Some((found, page)) = &self.page
            && *found == first
        {
            self.entry = page.lower_bound(lower);
            if self.entry == page.entries() {
                self.load_from(PageNumber::new(first.block, first.page + 1))?;
            }
        }
        self.check_end();
        Ok(())
    }

    /// Moves to the next entry.
    pub(super) fn next_version(&mut self) -> StorageResult<()> {
        let Some((number, page)) = &self.page else {
            return Ok(());
        };
        self.entry += 1;
        if self.entry == page.entries() {
            let next = PageNumber::new(number.block, number.page + 1);
            self.load_from(next)?;
        }
        self.check_end();
        Ok(())
    }

    /// The key of the position; `None` at the end.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let (_, page) = self.page.as_ref()?;
        Some(page.key(self.entry))
    }

    /// The operation, the write and the value of the entry; `None` at the end.
    pub(super) fn version(&self) -> Option<(Operation, WriteId, StoredValue<'_>)> {
        let (_, page) = self.page.as_ref()?;
        let (operation, id) = page.write(self.entry);
        let is_settled = self.run.handle.is_settled();
        let id = if is_settled { WriteId::SETTLED } else { id };
        let value = self.run.handle.run.stored_value(page, self.entry);
        Some((operation, id, value))
    }

    /// What could not be read since the last seek.
    pub(super) fn lost(&self) -> &[LostPart] {
        &self.lost
    }

    /// Whether a lost part may have contained a version of the key, newer than those in older runs.
    pub(super) fn may_have_lost(&self, key: &[u8]) -> bool {
        self.lost.iter().any(|lost| {
            let is_below = |upper: &Vec<u8>| key < upper.as_slice();
            lost.lower.as_slice() <= key && lost.upper.as_ref().is_none_or(is_below)
        })
    }

    /// Returns an index block; `None` when it cannot be read.
    fn read_block(&mut self, number: usize) -> StorageResult<Option<Arc<IndexBlock>>> {
        if let Some((held, block)) = &self.block
            && *held == number
        {
            return Ok(Some(Arc::clone(block)));
        }
        let run = &self.run.handle.run;
        match run.index_block(number, ReadPattern::Sequential, Priority::Normal) {
            Ok(block) => {
                self.block = Some((number, Arc::clone(&block)));
                Ok(Some(block))
            }
            Err(error) if is_loss(&error) => {
                let part = lost_pages(&self.run, number, error);
                self.lost.push(part);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Moves to the first entry of the first readable page at or after `first`.
    fn load_from(&mut self, first: PageNumber) -> StorageResult<()> {
        self.page = None;
        self.entry = 0;
        let mut from = first.page;
        for number in first.block..self.run.handle.description().index.len() {
            if self.is_after_clip(self.run.handle.description().index.bound_before(number)) {
                return Ok(());
            }
            let Some(block) = self.read_block(number)? else {
                from = 0;
                continue;
            };
            for place in std::mem::take(&mut from)..block.pages().len() {
                if let Some(before) = place.checked_sub(1)
                    && self.is_after_clip(block.last_key(before))
                {
                    return Ok(());
                }
                let page = PageNumber::new(number, place);
                let pattern = ReadPattern::Sequential;
                match self.run.handle.run.page(&block, page, pattern) {
                    Ok(read) => {
                        self.page = Some((page, read));
                        return Ok(());
                    }
                    Err(error) if is_loss(&error) => {
                        let part = lost_page(&self.run, &block, page, error);
                        self.lost.push(part);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Whether pages that begin at or after this key are after the part of the run.
    fn is_after_clip(&self, key: &[u8]) -> bool {
        let clip = self.run.clip.as_ref();
        clip.is_some_and(|clip| clip.ends_at_or_before(key))
    }

    fn check_end(&mut self) {
        if let (Some(clip), Some(key)) = (&self.run.clip, self.key())
            && clip.ends_at_or_before(key)
        {
            self.page = None;
        }
    }
}

/// Describes an entry whose separate value cannot be read.
pub(super) fn lost_value(key: &[u8], error: teak_base::StorageError) -> LostPart {
    LostPart {
        entries: Some(1),
        hides_older: true,
        ..LostPart::new(LostKind::Value, key, Some(&key_successor(key)), error)
    }
}

/// Describes the pages of an index block that cannot be read.
pub(super) fn lost_pages(run: &RunRef, number: usize, error: teak_base::StorageError) -> LostPart {
    let index = &run.handle.description().index;
    let entries = index.entries_before(number + 1) - index.entries_before(number);
    let (lower, upper) = (index.bound_before(number), index.bound_after(number));
    lost_part(run, LostKind::Pages, lower, upper, Some(entries), error)
}

/// Describes a page that cannot be read. The range includes the last key of the previous page,
/// whose versions may continue on this page.
pub(super) fn lost_page(
    run: &RunRef,
    block: &IndexBlock,
    number: PageNumber,
    error: teak_base::StorageError,
) -> LostPart {
    let index = &run.handle.description().index;
    let lower = match number.page.checked_sub(1) {
        Some(before) => block.last_key(before),
        None => index.bound_before(number.block),
    };
    let last = key_successor(block.last_key(number.page));
    let record = block.pages().get(number.page);
    let entries = record.map(|page| u64::from(page.entries));
    lost_part(run, LostKind::Page, lower, Some(&last), entries, error)
}

/// Describes a lost part. The range is reduced to that of the reference to the run.
fn lost_part(
    run: &RunRef,
    kind: LostKind,
    lower: &[u8],
    upper: Option<&[u8]>,
    entries: Option<u64>,
    error: teak_base::StorageError,
) -> LostPart {
    let description = run.handle.description();
    let last = key_successor(&description.last_key);
    let lower = lower.max(&description.first_key);
    let range = KeyRange::new(lower, Some(upper.unwrap_or(&last)));
    let range = match &run.clip {
        Some(clip) => clip.intersection(&range),
        None => range,
    };
    LostPart {
        entries,
        hides_older: run.handle.form == RunForm::Upper,
        ..LostPart::new(kind, &range.lower, range.upper.as_deref(), error)
    }
}
