//! Reading the columns of whole pages, for calculations.

use super::{CursorPosition, TreeCursor};
use crate::merge::heap::Direction;
use crate::page::ColumnChoice;
use crate::run::{ColumnRows, FollowingPage};
use crate::{RunCursor, VersionCursor};
use teak_base::visibility::Visibility;
use teak_base::{StorageResult, WriteId};

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
            self.pass_page(next.source, &next.page, next.columns.write());
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
            self.pass_page(next.source, &next.page, next.columns.write());
            return Ok(Some(next.columns.rows()));
        }
        if let Some((run, _)) = self.run_at(next.source) {
            run.keep_page(next.page, next.columns)?;
        }
        Ok(None)
    }

    fn next_page(&mut self, choice: &ColumnChoice) -> StorageResult<Option<NextPage>> {
        let (source, write) = match self.position {
            CursorPosition::Source(source) => (source, None),
            CursorPosition::PassedPage { source, write } => (source, Some(write)),
            _ => return Ok(None),
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
        // After an error the cursor is nowhere.
        let before = std::mem::replace(&mut self.position, CursorPosition::None);
        let next = self.columns_after(source, write, choice)?;
        self.position = before;
        Ok(next)
    }

    fn pass_page(&mut self, source: usize, page: &FollowingPage, write: WriteId) {
        self.key.clear();
        self.key.extend_from_slice(page.last_key());
        if let Some((run, _)) = self.run_at(source) {
            run.pass_page(page);
        }
        self.position = CursorPosition::PassedPage { source, write };
    }

    /// The last key of the page that the cursor has passed.
    #[must_use]
    pub fn passed_key(&self) -> Option<&[u8]> {
        matches!(self.position, CursorPosition::PassedPage { .. }).then_some(self.key.as_slice())
    }

    /// `write`: that of all rows of the page that was passed before.
    fn columns_after(
        &mut self,
        source: usize,
        write: Option<WriteId>,
        choice: &ColumnChoice,
    ) -> StorageResult<Option<NextPage>> {
        let on_row = self
            .sources
            .get(source)
            .and_then(|source| source.page_of_one_id());
        let write_before = write.or(on_row);
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
        let Some((run, is_settled)) = self.run_at(source) else {
            return Ok(None);
        };
        let Some(columns) = run.next_columns(&following, choice)? else {
            return Ok(None);
        };
        if !is_settled && !self.sees(columns.write()) {
            return Ok(None);
        }
        // The page may begin with an older version of the last key, which then has another write.
        if write_before != Some(columns.write()) && columns.first_key()? <= self.key {
            return Ok(None);
        }
        Ok(Some(NextPage {
            source,
            page: following,
            columns,
        }))
    }

    fn run_at(&mut self, source: usize) -> Option<(&mut RunCursor, bool)> {
        self.sources.get_mut(source)?.whole_run()
    }
}
