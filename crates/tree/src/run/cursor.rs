//! A cursor over the entries of a run.

use super::{ReadPattern, Run, RunIndex};
use crate::{Page, StoredValue, VersionCursor};
use std::sync::Arc;
use teak_base::{Operation, StorageResult, WriteId};

/// A cursor over the entries of a run.
#[derive(Debug)]
pub struct RunCursor {
    run: Arc<Run>,
    pattern: ReadPattern,
    index: Option<Arc<RunIndex>>,
    /// The page read last and its number.
    page: Option<(usize, Arc<Page>)>,
    entry: usize,
    valid: bool,
}

impl Run {
    /// A cursor over the entries. It does not return range tombstones.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, pattern: ReadPattern) -> RunCursor {
        RunCursor {
            run: Arc::clone(self),
            pattern,
            index: None,
            page: None,
            entry: 0,
            valid: false,
        }
    }
}

impl RunCursor {
    /// The index, read once; `None` when the run has no entries.
    fn index(&mut self) -> StorageResult<Option<Arc<RunIndex>>> {
        if self.index.is_none() {
            self.index = self.run.index()?;
        }
        Ok(self.index.clone())
    }

    #[inline]
    fn load(&mut self, index: &RunIndex, number: usize) -> StorageResult<Arc<Page>> {
        if let Some((held, page)) = &self.page
            && *held == number
        {
            return Ok(Arc::clone(page));
        }
        let page = self.run.page(index, number, self.pattern)?;
        self.page = Some((number, Arc::clone(&page)));
        Ok(page)
    }

    #[inline]
    fn current(&self) -> (&Page, usize) {
        assert!(self.valid, "the cursor is not on an entry");
        let Some((_, page)) = &self.page else {
            unreachable!("a valid cursor holds a page");
        };
        (page, self.entry)
    }

    /// Moves to the newest version of the last key at or before entry `end - 1`
    /// of page `number`.
    fn move_before(
        &mut self,
        index: &RunIndex,
        mut number: usize,
        mut end: usize,
    ) -> StorageResult<()> {
        loop {
            let page = self.load(index, number)?;
            if end > 0 {
                let last = end.min(page.entries()) - 1;
                let key = page.key(last);
                // The versions of this key may begin on an earlier page.
                let first = index.page_of(key);
                let page_of_newest = if first < number {
                    self.load(index, first)?
                } else {
                    Arc::clone(&page)
                };
                self.entry = page_of_newest.lower_bound(key);
                // According to the index, this page has the key. If it does not, because the file
                // is damaged, the cursor becomes invalid.
                self.valid = self.entry < page_of_newest.entries();
                return Ok(());
            }
            match number.checked_sub(1) {
                None => return Ok(()),
                Some(before) => {
                    number = before;
                    end = usize::MAX;
                }
            }
        }
    }
}

impl VersionCursor for RunCursor {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.valid = false;
        let Some(index) = self.index()? else {
            return Ok(());
        };
        let number = index.page_of(key);
        if number == index.pages().len() {
            return Ok(());
        }
        let page = self.load(&index, number)?;
        self.entry = page.lower_bound(key);
        self.valid = self.entry < page.entries();
        Ok(())
    }

    fn seek_first(&mut self) -> StorageResult<()> {
        self.valid = false;
        if let Some(index) = self.index()? {
            self.load(&index, 0)?;
            self.entry = 0;
            self.valid = true;
        }
        Ok(())
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.valid = false;
        match self.index()? {
            None => Ok(()),
            Some(index) => self.move_before(&index, index.pages().len() - 1, usize::MAX),
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        self.valid = false;
        let Some(index) = self.index()? else {
            return Ok(());
        };
        let number = index.page_of(key);
        if number == index.pages().len() {
            return self.move_before(&index, number - 1, usize::MAX);
        }
        let end = self.load(&index, number)?.lower_bound(key);
        self.move_before(&index, number, end)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        let (page, entry) = self.current();
        page.key(entry)
    }

    #[inline]
    fn write_id(&self) -> WriteId {
        let (page, entry) = self.current();
        page.write(entry).1
    }

    #[inline]
    fn operation(&self) -> Operation {
        let (page, entry) = self.current();
        page.write(entry).0
    }

    #[inline]
    fn value(&self) -> StoredValue<'_> {
        let (page, entry) = self.current();
        self.run.stored_value(page, entry)
    }

    #[inline]
    fn is_separate(&self) -> bool {
        let (page, entry) = self.current();
        page.is_separate(entry)
    }

    #[inline]
    fn next_version(&mut self) -> StorageResult<()> {
        let (page, entry) = self.current();
        if entry + 1 < page.entries() {
            self.entry = entry + 1;
            return Ok(());
        }
        self.valid = false;
        let number = self.page.as_ref().map_or(0, |(number, _)| number + 1);
        let Some(index) = self.index()? else {
            return Ok(());
        };
        if number < index.pages().len() {
            self.load(&index, number)?;
            self.entry = 0;
            self.valid = true;
        }
        Ok(())
    }

    fn previous_key(&mut self) -> StorageResult<()> {
        let (page, entry) = self.current();
        // Fast path: the previous key has one version and is not the first
        // entry of the page.
        if let Some(before) = entry.checked_sub(1)
            && before > 0
            && page.key(before) != page.key(entry)
            && page.key(before - 1) != page.key(before)
        {
            self.entry = before;
            return Ok(());
        }
        let key = page.key(entry).to_vec();
        self.seek_before(&key)
    }
}
