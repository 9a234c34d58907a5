//! Reading the columns of a page for a calculation.

use super::{IndexBlock, PageNumber, ReadPattern, Run, record_of};
use crate::Page;
use crate::cache::{Cached, Priority};
use crate::page::{ColumnChoice, ColumnPage, Opened, Projection};
use std::sync::Arc;
use teak_base::{StorageResult, WriteId};
use teak_block_file::{BlockAddress, ReadAhead};
use teak_columns::Vector;
use teak_disk::pay_for_io;

/// The columns of the rows of a page, of which each is decoded when it is read.
#[derive(Debug)]
pub struct ColumnRows {
    page: Box<ColumnPage>,
    run: Arc<Run>,
    address: BlockAddress,
}

/// A page that was read for a calculation.
#[derive(Debug)]
pub(super) enum ColumnRead {
    Columns(ColumnRows),
    /// Its rows must be read.
    Page(Arc<Page>),
}

impl ColumnRows {
    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.page.rows()
    }

    /// The id of the write of all rows.
    pub(crate) fn write(&self) -> WriteId {
        self.page.write()
    }

    /// Whether the rows have different keys, all greater than this one.
    pub(crate) fn has_new_keys(&self, before: &[u8]) -> StorageResult<bool> {
        let is_new = self.page.has_new_keys(before);
        is_new.map_err(|_| self.run.corrupt(self.address, "the page is malformed"))
    }

    /// The values of a column, counted as in the choice of columns.
    ///
    /// # Errors
    /// `Corrupt` if the page is malformed, or the choice has no such column.
    pub fn vector(&mut self, number: usize) -> StorageResult<Vector> {
        let vector = self.page.vector(number);
        vector.map_err(|_| {
            self.run
                .corrupt(self.address, "a column of the page is malformed")
        })
    }
}

impl Run {
    /// The page of which columns were read, with its rows.
    pub(super) fn page_of_columns(
        &self,
        block: &IndexBlock,
        number: PageNumber,
        columns: ColumnRows,
        pattern: ReadPattern,
        projection: Option<&Projection>,
    ) -> StorageResult<Arc<Page>> {
        let raw = columns.page.into_raw();
        let page = self.decode_page(block, number, raw, projection)?;
        let (file, offset) = (self.file.file_id(), columns.address.offset);
        if pattern == ReadPattern::Random && self.cache.peek(file, offset).is_none() {
            let cached = Cached::Page(Arc::clone(&page));
            self.cache.insert(file, offset, Priority::Normal, cached);
        }
        Ok(page)
    }

    /// Reads a page of the run, which must exist, for a calculation. It is not put into the cache. If its rows must be read,
    /// they have the columns of `projection`.
    pub(super) fn read_columns(
        self: &Arc<Self>,
        block: &IndexBlock,
        number: PageNumber,
        choice: &ColumnChoice,
        projection: Option<&Projection>,
        ahead: &mut ReadAhead,
    ) -> StorageResult<ColumnRead> {
        let record = record_of(block, number);
        let address = record.address;
        if let Some(Cached::Page(page)) = self.cache.peek(self.file.file_id(), address.offset)
            && page.has_columns(projection)
        {
            return Ok(ColumnRead::Page(page));
        }
        let raw = self.read_raw_page(record, ahead);
        pay_for_io();
        let opened = ColumnPage::open(raw?, choice);
        match opened.map_err(|_| self.corrupt(address, "the page is malformed"))? {
            Opened::Columns(page) if page.rows() != record.entries as usize => {
                Err(self.corrupt(address, "the page and its index block disagree"))
            }
            Opened::Columns(page) => Ok(ColumnRead::Columns(ColumnRows {
                page,
                run: Arc::clone(self),
                address,
            })),
            Opened::Rows(raw) => {
                let page = self.decode_page(block, number, raw, projection)?;
                Ok(ColumnRead::Page(page))
            }
        }
    }
}
