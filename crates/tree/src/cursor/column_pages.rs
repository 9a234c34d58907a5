//! Reading the columns of whole pages, for calculations.

use super::{CursorPosition, TreeCursor};
use crate::merge::heap::Direction;
use crate::page::ColumnChoice;
use crate::run::{ColumnRows, FollowingPage, PageZone, ZoneReader};
use crate::{RunCursor, VersionCursor};
use teak_base::StorageResult;
use teak_base::visibility::Visibility;

/// A page whose rows are the next ones.
struct NextPage {
    source: usize,
    page: FollowingPage,
    columns: ColumnRows,
}

impl<V: Visibility> TreeCursor<V> {
    /// If the cursor is on the last row of a page, or has passed a page, and the reader sees all rows of the page
    /// that follows in key order, and no others among them: returns the columns of that page, and passes it.
    /// Otherwise does not move, and returns `None`. A cursor that has passed a page is on no key; the next step
    /// moves to the key after the page.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn next_columns(&mut self, choice: &ColumnChoice) -> StorageResult<Option<ColumnRows>> {
        let next = self.next_page(choice)?;
        Ok(next.map(|next| {
            self.pass_page(next.source, &next.page);
            next.columns
        }))
    }

    /// As [`TreeCursor::next_columns`], but passes the page only if `may_pass` returns true for its columns. Returns the
    /// number of rows that were passed. If the page is not passed, a following step does not read it again.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`]; errors of `may_pass`.
    pub fn pass_page_if(
        &mut self,
        choice: &ColumnChoice,
        may_pass: &mut dyn FnMut(&mut ColumnRows) -> StorageResult<bool>,
    ) -> StorageResult<Option<usize>> {
        let Some(mut next) = self.next_page(choice)? else {
            return Ok(None);
        };
        if may_pass(&mut next.columns)? {
            self.pass_page(next.source, &next.page);
            return Ok(Some(next.columns.rows()));
        }
        if let Some((run, _)) = self.run_at(next.source) {
            run.keep_page(next.page, next.columns)?;
        }
        Ok(None)
    }

    /// As [`TreeCursor::pass_page_if`], but decides by the zones of the page's columns, and does not read it. Does not pass a page
    /// without zones.
    ///
    /// # Errors
    /// As [`TreeCursor::seek`].
    pub fn pass_page_by_zones(
        &mut self,
        reader: &mut ZoneReader,
        may_pass: &mut dyn FnMut(PageZone<'_>) -> bool,
    ) -> StorageResult<Option<usize>> {
        let Some(source) = self.page_may_follow()? else {
            return Ok(None);
        };
        let before = std::mem::replace(&mut self.position, CursorPosition::None);
        let next = self.zones_after(source, reader, may_pass)?;
        self.position = before;
        Ok(next.map(|page| {
            self.pass_page(source, &page);
            page.entries()
        }))
    }

    fn next_page(&mut self, choice: &ColumnChoice) -> StorageResult<Option<NextPage>> {
        let Some(source) = self.page_may_follow()? else {
            return Ok(None);
        };
        // After an error the cursor is nowhere.
        let before = std::mem::replace(&mut self.position, CursorPosition::None);
        let next = self.columns_after(source, choice)?;
        self.position = before;
        Ok(next)
    }

    /// The source with the position, if the page that follows it may be passed.
    fn page_may_follow(&mut self) -> StorageResult<Option<usize>> {
        let (CursorPosition::Source(source) | CursorPosition::PassedPage(source)) = self.position
        else {
            return Ok(None);
        };
        if self.direction != Direction::Forward
            || !self.layers.is_empty()
            || !self.is_within_range(source)
            || self.must_follow()
        {
            return Ok(None);
        }
        self.check_interrupt()?;
        self.keep_key();
        Ok(Some(source))
    }

    fn pass_page(&mut self, source: usize, page: &FollowingPage) {
        self.key.clear();
        self.key.extend_from_slice(page.last_key());
        if let Some((run, _)) = self.run_at(source) {
            run.pass_page(page);
        }
        self.position = CursorPosition::PassedPage(source);
    }

    /// The last key of the page that the cursor has passed.
    #[must_use]
    pub fn passed_key(&self) -> Option<&[u8]> {
        matches!(self.position, CursorPosition::PassedPage(_)).then_some(self.key.as_slice())
    }

    fn columns_after(
        &mut self,
        source: usize,
        choice: &ColumnChoice,
    ) -> StorageResult<Option<NextPage>> {
        let before = std::mem::take(&mut self.key);
        let columns = self.columns_after_key(&before, source, choice);
        self.key = before;
        columns
    }

    /// `before`: the last key of the page that was passed before.
    fn columns_after_key(
        &mut self,
        before: &[u8],
        source: usize,
        choice: &ColumnChoice,
    ) -> StorageResult<Option<NextPage>> {
        let Some(page) = self.page_after(source)? else {
            return Ok(None);
        };
        let Some((run, is_settled)) = self.run_at(source) else {
            return Ok(None);
        };
        let Some(columns) = run.next_columns(&page, choice)? else {
            return Ok(None);
        };
        if run.has_versions() && !columns.has_new_keys(before)? {
            run.keep_page(page, columns)?;
            return Ok(None);
        }
        if !is_settled && !self.sees(columns.write()) {
            return Ok(None);
        }
        Ok(Some(NextPage {
            source,
            page,
            columns,
        }))
    }

    /// The page that follows and may be passed according to its zones.
    fn zones_after(
        &mut self,
        source: usize,
        reader: &mut ZoneReader,
        may_pass: &mut dyn FnMut(PageZone<'_>) -> bool,
    ) -> StorageResult<Option<FollowingPage>> {
        let Some(page) = self.page_after(source)? else {
            return Ok(None);
        };
        let Some((run, is_settled)) = self.run_at(source) else {
            return Ok(None);
        };
        let Some((entries, zone)) = run.zones(&page, reader)? else {
            return Ok(None);
        };
        if !may_pass(zone) || !is_settled && !self.sees(entries.write) {
            return Ok(None);
        }
        Ok(Some(page))
    }

    /// The page that follows in a source, if its keys are those that follow the position: no other source has one among
    /// them, and the last one is within the range.
    fn page_after(&mut self, source: usize) -> StorageResult<Option<FollowingPage>> {
        let Some((run, _)) = self.run_at(source) else {
            return Ok(None);
        };
        let Some(following) = run.following_page()? else {
            return Ok(None);
        };
        let last_key = following.last_key();
        let is_apart = |number: usize| {
            let others = self.sources.get(number).filter(|_| number != source);
            others.is_none_or(|other| !self.is_live(number) || other.key() > last_key)
        };
        if self.is_past_limit(last_key) || !(0..self.sources.len()).all(is_apart) {
            return Ok(None);
        }
        Ok(Some(following))
    }

    fn run_at(&mut self, source: usize) -> Option<(&mut RunCursor, bool)> {
        self.sources.get_mut(source)?.whole_run()
    }
}
