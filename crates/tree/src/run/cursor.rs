//! A cursor over the entries of a run.

use super::block_zones::PageWrite;
use super::column_rows::{ColumnRead, ColumnRows};
use super::held_page::HeldPage;
use super::read_pattern::BlockSource;
use super::{
    IndexBlock, IndexTable, PageNeeds, PageNumber, PageZone, PrefixPlace, ReadPattern, Run,
    ZoneReader,
};
use crate::cache::Priority;
use crate::filter_keys::KeyPrefix;
use crate::key_search::key_order;
use crate::page::{ColumnChoice, Projection};
use crate::{Page, StoredValue, VersionCursor};
use std::sync::Arc;
use teak_base::{Operation, StorageError, StorageResult, WriteId};
use teak_block_file::ReadAhead;

/// Rows of a page that a scan decodes one by one, before it decodes the page wholly, which takes about as long.
const ROWS_ONE_BY_ONE_MAX: u32 = 8;

/// A cursor over the entries of a run.
#[derive(Debug)]
pub struct RunCursor {
    run: Arc<Run>,
    pattern: ReadPattern,
    /// The columns of values that are needed; `None`: all.
    projection: Option<Projection>,
    /// The index block read last and its number.
    block: Option<(usize, Arc<IndexBlock>)>,
    /// Whether a seek may hold a page whose rows are decoded one by one.
    takes_rows: bool,
    /// The page read last and its number.
    page: Option<(PageNumber, HeldPage)>,
    /// The value of an entry of a page whose rows are decoded one by one, and the number of the entry.
    value: Vec<u8>,
    value_of: Option<usize>,
    /// The number of values of the page that were read.
    rows_read: u32,
    /// The page after it, if [`RunCursor::next_columns`] has read it as rows.
    following: Option<(PageNumber, Arc<Page>)>,
    /// The last page whose columns were used, after the page with the entry.
    passed: Option<PageNumber>,
    /// Whether a sequential reader found this page in the cache.
    is_cached: bool,
    ahead: ReadAhead,
    entry: usize,
    valid: bool,
}

/// A page of which columns may be read.
#[derive(Debug)]
pub(crate) struct FollowingPage {
    number: PageNumber,
    block: Arc<IndexBlock>,
}

impl FollowingPage {
    pub(crate) fn last_key(&self) -> &[u8] {
        self.block.last_key(self.number.page)
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> usize {
        let record = self.block.pages().get(self.number.page);
        record.map_or(0, |record| record.entries as usize)
    }
}

impl Run {
    /// A cursor over the entries. It does not return range tombstones.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, pattern: ReadPattern) -> RunCursor {
        RunCursor {
            run: Arc::clone(self),
            pattern,
            projection: None,
            block: None,
            takes_rows: false,
            page: None,
            value: Vec::new(),
            value_of: None,
            rows_read: 0,
            following: None,
            passed: None,
            is_cached: false,
            ahead: ReadAhead::default(),
            entry: 0,
            valid: false,
        }
    }
}

impl RunCursor {
    /// Sets the columns of values that are needed, before the first move.
    pub(crate) fn set_projection(&mut self, projection: Option<Projection>) {
        self.projection = projection;
    }

    /// Lets a seek hold a page whose rows are decoded one by one. Then [`RunCursor::load_value`] must be called before
    /// the value of an entry is read.
    pub(crate) fn take_rows(&mut self) {
        self.takes_rows = self.pattern == ReadPattern::Random;
    }

    fn index(&self) -> &IndexTable {
        &self.run.description.index
    }

    /// Whether the run may have entries whose keys start with the prefix and are equal except for
    /// their suffix. May read an index block, which a seek to the prefix then does not read again.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub(crate) fn may_have_prefix(&mut self, prefix: &KeyPrefix) -> StorageResult<bool> {
        match self.run.prefix_place(prefix) {
            PrefixPlace::None => Ok(false),
            PrefixPlace::Unknown => Ok(true),
            PrefixPlace::Block { number, hash } => {
                let block = self.load_block(number, Priority::High)?;
                Ok(self.run.filter_passes(&block, hash))
            }
        }
    }

    /// `priority`: high if the block is looked up, normal if a scan arrives at it.
    #[inline]
    fn load_block(&mut self, number: usize, priority: Priority) -> StorageResult<Arc<IndexBlock>> {
        if let Some((held, block)) = &self.block
            && *held == number
        {
            return Ok(Arc::clone(block));
        }
        let block = self.run.index_block(number, self.pattern, priority)?;
        self.block = Some((number, Arc::clone(&block)));
        Ok(block)
    }

    #[inline]
    fn load(&mut self, number: PageNumber) -> StorageResult<HeldPage> {
        self.passed = None;
        if let Some((held, page)) = &self.page
            && *held == number
        {
            return Ok(page.clone());
        }
        if let Some((read, page)) = self.following.take()
            && read == number
        {
            self.is_cached = false;
            return Ok(self.hold(number, HeldPage::Whole(page)));
        }
        let block = self.load_block(number.block, Priority::Normal)?;
        self.load_whole(&block, number)
    }

    /// As `load`, for a seek: it may be the only one that reads the page, and read few rows.
    #[inline]
    fn load_for_seek(&mut self, number: PageNumber) -> StorageResult<HeldPage> {
        let is_held = matches!(&self.page, Some((held, _)) if *held == number);
        let has_read_many = self.rows_read > ROWS_ONE_BY_ONE_MAX;
        if is_held || has_read_many || !self.takes_rows {
            return self.load(number);
        }
        self.passed = None;
        self.following = None;
        self.is_cached = false;
        let block = self.load_block(number.block, Priority::Normal)?;
        let needs = PageNeeds {
            source: BlockSource::File,
            projection: self.projection.as_ref(),
            one_row: true,
        };
        let page = self
            .run
            .page_of_lookup(&block, number, needs, &mut self.ahead)?;
        Ok(self.hold(number, page))
    }

    fn load_whole(&mut self, block: &IndexBlock, number: PageNumber) -> StorageResult<HeldPage> {
        let (page, is_cached) = self.run.page_ahead(
            block,
            number,
            self.pattern,
            self.projection.as_ref(),
            &mut self.ahead,
        )?;
        self.is_cached = is_cached;
        Ok(self.hold(number, HeldPage::Whole(page)))
    }

    #[inline]
    fn hold(&mut self, number: PageNumber, page: HeldPage) -> HeldPage {
        self.value_of = None;
        self.rows_read = 0;
        self.page = Some((number, page.clone()));
        page
    }

    /// Notes that the value of the entry is read. If the rows of the page are decoded one by one, decodes it, or after some
    /// of them the page.
    #[inline]
    pub(crate) fn load_value(&mut self) -> StorageResult<()> {
        self.rows_read = self.rows_read.saturating_add(1);
        match &self.page {
            Some((number, HeldPage::Rows(_)))
                if self.valid && self.value_of != Some(self.entry) =>
            {
                self.decode_value(*number)
            }
            _ => Ok(()),
        }
    }

    fn decode_value(&mut self, number: PageNumber) -> StorageResult<()> {
        let block = self.load_block(number.block, Priority::Normal)?;
        if self.rows_read > ROWS_ONE_BY_ONE_MAX {
            let rows_read = self.rows_read;
            self.load_whole(&block, number)?;
            self.rows_read = rows_read;
            return Ok(());
        }
        let Some((_, HeldPage::Rows(page))) = &self.page else {
            return Ok(());
        };
        page.count_use();
        page.value(self.entry, self.projection.as_ref(), &mut self.value)
            .map_err(|_| self.run.malformed_page(&block, number))?;
        self.value_of = Some(self.entry);
        Ok(())
    }

    /// The page after that of the current entry, or after the last one that was
    /// [passed](RunCursor::pass_page), and its index block. `None` if the entry is not the last of its page, or there is no other page.
    pub(crate) fn following_page(&mut self) -> StorageResult<Option<FollowingPage>> {
        let last = match (self.passed, &self.page) {
            (Some(passed), _) if self.valid => passed,
            (None, Some((number, page))) if self.valid && self.entry + 1 == page.entries() => {
                *number
            }
            _ => return Ok(None),
        };
        let Some(number) = self.number_after(last)? else {
            return Ok(None);
        };
        let block = self.load_block(number.block, Priority::Normal)?;
        Ok(Some(FollowingPage { number, block }))
    }

    /// Whether a key of the run may have several versions. They may be of one write, if the run was written during that write.
    pub(crate) fn has_versions(&self) -> bool {
        self.run.description.entries() != self.run.description.keys
    }

    /// The zones of this page, and what its entries are. `None` also if the run has several versions of a key, because the page may
    /// have some of them.
    pub(crate) fn zones<'z>(
        &self,
        following: &FollowingPage,
        reader: &'z mut ZoneReader,
    ) -> StorageResult<Option<(PageWrite, PageZone<'z>)>> {
        if self.has_versions() {
            return Ok(None);
        }
        let FollowingPage { number, block } = following;
        let zones = reader.page(block, number.page);
        zones.map_err(|_| {
            let offset = self.index().address(number.block).map_or(0, |of| of.offset);
            let text = "the zones of an index block are malformed";
            StorageError::corrupt(self.run.file.path(), offset, text)
        })
    }

    /// Reads the columns of this page. `None` if its rows must be read.
    pub(crate) fn next_columns(
        &mut self,
        following: &FollowingPage,
        choice: &ColumnChoice,
    ) -> StorageResult<Option<ColumnRows>> {
        let FollowingPage { number, block } = following;
        let projection = self.projection.as_ref();
        match self
            .run
            .read_columns(block, *number, choice, projection, &mut self.ahead)?
        {
            ColumnRead::Columns(rows) => Ok(Some(rows)),
            ColumnRead::Page(page) => {
                self.following = Some((*number, page));
                Ok(None)
            }
        }
    }

    /// Decodes the rows of a page of which columns were read, for the step that follows.
    pub(crate) fn keep_page(
        &mut self,
        following: FollowingPage,
        columns: ColumnRows,
    ) -> StorageResult<()> {
        let FollowingPage { number, block } = following;
        let projection = self.projection.as_ref();
        let page = self
            .run
            .page_of_columns(&block, number, columns, self.pattern, projection)?;
        self.following = Some((number, page));
        Ok(())
    }

    /// Notes that the columns of this page were used.
    pub(crate) fn pass_page(&mut self, following: &FollowingPage) {
        self.passed = Some(following.number);
    }

    fn number_after(&mut self, number: PageNumber) -> StorageResult<Option<PageNumber>> {
        let PageNumber { block, page } = number;
        let pages = self.load_block(block, Priority::Normal)?.pages().len();
        Ok(match (page + 1 < pages, block + 1 < self.index().len()) {
            (true, _) => Some(PageNumber::new(block, page + 1)),
            (false, true) => Some(PageNumber::new(block + 1, 0)),
            (false, false) => None,
        })
    }

    /// Moves to the first entry of a page.
    fn move_to_page(&mut self, number: PageNumber) -> StorageResult<()> {
        self.load(number)?;
        self.entry = 0;
        self.valid = true;
        Ok(())
    }

    /// The page, the number of the entry, and the write of all entries of the page, if they have one
    /// ([`Page::one_write`]). `is_settled`: whether the run is settled.
    #[inline]
    pub(crate) fn page_of_one_write(&self, is_settled: bool) -> Option<(&Page, usize, WriteId)> {
        match &self.page {
            Some((_, HeldPage::Whole(page))) if self.valid => {
                Some((page, self.entry, page.one_write(is_settled)?))
            }
            _ => None,
        }
    }

    /// Moves forward within such a page. If there is none, or it has fewer entries after this one,
    /// returns `false` and does not move.
    #[inline]
    pub(crate) fn pass_in_page(&mut self, entries: usize, is_settled: bool) -> bool {
        let to = self.entry.saturating_add(entries);
        let is_there = self
            .page_of_one_write(is_settled)
            .is_some_and(|(page, ..)| to < page.entries());
        if is_there {
            self.entry = to;
            // Scans of many rows move so: the next seek need not decode single rows.
            self.rows_read = u32::MAX;
        }
        is_there
    }

    #[inline]
    fn current(&self) -> (&HeldPage, usize) {
        assert!(self.valid, "the cursor is not on an entry");
        let Some((_, page)) = &self.page else {
            unreachable!("a valid cursor holds a page");
        };
        (page, self.entry)
    }

    /// Moves to the newest version of the last key at or before entry `end - 1`
    /// of page `number`.
    fn move_before(&mut self, mut number: PageNumber, mut end: usize) -> StorageResult<()> {
        loop {
            let page = self.load(number)?;
            if end > 0 {
                let last = end.min(page.entries()) - 1;
                let key = page.key(last);
                // The versions of this key may begin on an earlier page of the index block.
                let block = self.load_block(number.block, Priority::Normal)?;
                let first = block.page_of(key);
                let page_of_newest = if first < number.page {
                    self.load(PageNumber::new(number.block, first))?
                } else {
                    page.clone()
                };
                self.entry = page_of_newest.lower_bound(key);
                // According to the index, this page has the key. If it does not, because the file
                // is damaged, the cursor becomes invalid.
                self.valid = self.entry < page_of_newest.entries();
                return Ok(());
            }
            end = usize::MAX;
            number = match (number.page.checked_sub(1), number.block.checked_sub(1)) {
                (Some(before), _) => PageNumber::new(number.block, before),
                (None, Some(block)) => self.last_page(block)?,
                (None, None) => return Ok(()),
            };
        }
    }

    /// The last page of an index block.
    fn last_page(&mut self, block: usize) -> StorageResult<PageNumber> {
        let pages = self.load_block(block, Priority::Normal)?.pages().len();
        Ok(PageNumber::new(block, pages - 1))
    }
}

impl VersionCursor for RunCursor {
    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.valid = false;
        if key_order(key, &self.run.description.last_key).is_gt() || self.index().is_empty() {
            return Ok(());
        }
        let number = self.index().block_of(key);
        let block = self.load_block(number, Priority::High)?;
        let page = block.page_of(key);
        if page == block.pages().len() {
            // The key is before the bound of the next block.
            if number + 1 < self.index().len() {
                return self.move_to_page(PageNumber::new(number + 1, 0));
            }
            return Ok(());
        }
        let number = PageNumber::new(number, page);
        // A scan of all rows begins before all keys.
        let page = match key.is_empty() {
            true => self.load(number),
            false => self.load_for_seek(number),
        }?;
        self.entry = page.lower_bound(key);
        self.valid = self.entry < page.entries();
        Ok(())
    }

    fn seek_first(&mut self) -> StorageResult<()> {
        self.valid = false;
        if self.index().is_empty() {
            return Ok(());
        }
        self.move_to_page(PageNumber::new(0, 0))
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.valid = false;
        match self.index().len().checked_sub(1) {
            None => Ok(()),
            Some(block) => {
                let last = self.last_page(block)?;
                self.move_before(last, usize::MAX)
            }
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> StorageResult<()> {
        self.valid = false;
        if self.index().is_empty() || key_order(key, &self.run.description.first_key).is_le() {
            return Ok(());
        }
        let number = self.index().block_of(key);
        let block = self.load_block(number, Priority::High)?;
        let page = block.page_of(key);
        if page == block.pages().len() {
            return self.move_before(PageNumber::new(number, page - 1), usize::MAX);
        }
        let page = PageNumber::new(number, page);
        let end = self.load_for_seek(page)?.lower_bound(key);
        self.move_before(page, end)
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
        match self.current() {
            (HeldPage::Whole(page), entry) => self.run.stored_value(page, entry),
            (HeldPage::Rows(_), entry) => {
                assert!(self.value_of == Some(entry), "the value was not loaded");
                StoredValue::Inline(&self.value)
            }
        }
    }

    #[inline]
    fn is_separate(&self) -> bool {
        let (page, entry) = self.current();
        page.is_separate(entry)
    }

    #[inline]
    fn is_cached(&self) -> bool {
        self.is_cached
    }

    #[inline]
    fn next_version(&mut self) -> StorageResult<()> {
        let (page, entry) = self.current();
        if entry + 1 < page.entries() {
            self.entry = entry + 1;
            return Ok(());
        }
        self.valid = false;
        let Some((number, _)) = self.page else {
            unreachable!("a valid cursor holds a page");
        };
        match self.number_after(number)? {
            Some(next) => self.move_to_page(next),
            None => Ok(()),
        }
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
