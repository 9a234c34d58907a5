//! A forward cursor over a run that skips the pages it cannot read.

use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{KeyRange, RunForm, RunRef};
use crate::run::RunIndex;
use crate::{Page, ReadPattern, StoredValue};
use std::sync::Arc;
use teak_base::bytes::key_successor;
use teak_base::{Operation, StorageResult, WriteId};

/// A cursor over the part of a run to which a node refers.
pub(super) struct SalvageRun {
    run: RunRef,
    index: Option<Arc<RunIndex>>,
    /// The page of the position and its number.
    page: Option<(usize, Arc<Page>)>,
    entry: usize,
    /// What could not be read since the last seek.
    lost: Vec<LostPart>,
}

impl SalvageRun {
    pub(super) fn new(run: &RunRef) -> Self {
        Self {
            run: run.clone(),
            index: None,
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
        if !self.read_index()? {
            return Ok(());
        }
        let Some(index) = self.index.clone() else {
            return Ok(());
        };
        let number = index.page_of(lower);
        self.load_from(&index, number)?;
        if let Some((found, page)) = &self.page
            && *found == number
        {
            self.entry = page.lower_bound(lower);
            if self.entry == page.entries() {
                self.load_from(&index, number + 1)?;
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
            let next = number + 1;
            if let Some(index) = self.index.clone() {
                self.load_from(&index, next)?;
            }
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

    /// Reads the index, once. Returns whether there is one.
    fn read_index(&mut self) -> StorageResult<bool> {
        if self.index.is_none() {
            match self.run.handle.run.index() {
                Ok(index) => self.index = index,
                Err(error) if is_loss(&error) => self.lost.push(LostPart {
                    entries: Some(self.run.handle.description().entries()),
                    hides_older: self.run.handle.form == RunForm::Upper,
                    ..LostPart::new(LostKind::Run, self.run.lower(), self.run.upper(), error)
                }),
                Err(error) => return Err(error),
            }
        }
        Ok(self.index.is_some())
    }

    /// Moves to the first entry of the first readable page at or after `number`.
    fn load_from(&mut self, index: &RunIndex, number: usize) -> StorageResult<()> {
        self.page = None;
        self.entry = 0;
        let pages = number..index.pages().len();
        for number in pages {
            if self.starts_after_clip(index, number) {
                return Ok(());
            }
            let pattern = ReadPattern::Sequential;
            match self.run.handle.run.page(index, number, pattern) {
                Ok(page) => {
                    self.page = Some((number, page));
                    return Ok(());
                }
                Err(error) if is_loss(&error) => {
                    let part = lost_page(&self.run, index, number, error);
                    self.lost.push(part);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn starts_after_clip(&self, index: &RunIndex, number: usize) -> bool {
        let (Some(clip), Some(before)) = (&self.run.clip, number.checked_sub(1)) else {
            return false;
        };
        clip.ends_at_or_before(index.last_key(before))
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

/// Describes a page that cannot be read. The range includes the last key of the previous page,
/// whose versions may continue on this page.
pub(super) fn lost_page(
    run: &RunRef,
    index: &RunIndex,
    number: usize,
    error: teak_base::StorageError,
) -> LostPart {
    let description = run.handle.description();
    let before = number.checked_sub(1).map(|before| index.last_key(before));
    let last = key_successor(index.last_key(number));
    let lower = before.unwrap_or(&description.first_key);
    let range = KeyRange::new(lower, Some(&last));
    let range = match &run.clip {
        Some(clip) => clip.intersection(&range),
        None => range,
    };
    let entries = index.pages().get(number).map(|page| page.entries);
    LostPart {
        entries: entries.map(u64::from),
        hides_older: run.handle.form == RunForm::Upper,
        ..LostPart::new(LostKind::Page, &range.lower, range.upper.as_deref(), error)
    }
}
