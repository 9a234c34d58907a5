//! Reading the zones of the pages that follow a cursor.

use super::IndexBlock;
use super::block_zones::{BlockZones, PageWrite};
use crate::page::ColumnChoice;
use std::sync::Arc;
use teak_base::bytes::Malformed;
use teak_columns::Zone;

/// Reads the zones of some columns, of one scan.
#[derive(Debug)]
pub struct ZoneReader {
    choice: ColumnChoice,
    /// The index block read last.
    block: Option<Arc<IndexBlock>>,
    zones: Option<BlockZones>,
}

/// What is known of the chosen columns of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageZone<'a> {
    zones: &'a BlockZones,
    page: usize,
}

impl ZoneReader {
    /// A reader of these columns.
    #[must_use]
    pub fn new(choice: ColumnChoice) -> Self {
        Self {
            choice,
            block: None,
            zones: None,
        }
    }

    /// The zones of a page, and what its entries are. `None` if there are none.
    pub(super) fn page(
        &mut self,
        block: &Arc<IndexBlock>,
        page: usize,
    ) -> Result<Option<(PageWrite, PageZone<'_>)>, Malformed> {
        if !block.has_zones() {
            return Ok(None);
        }
        let is_read = self
            .block
            .as_ref()
            .is_some_and(|read| Arc::ptr_eq(read, block));
        if !is_read {
            self.block = None;
            self.zones = block.zones(&self.choice)?;
            self.block = Some(Arc::clone(block));
        }
        let zones = self.zones.as_ref();
        Ok(zones.and_then(|zones| Some((zones.page(page)?, PageZone { zones, page }))))
    }
}

impl PageZone<'_> {
    /// What is known of a column, which counts the chosen ones; `None`: nothing.
    #[must_use]
    pub fn column(&self, column: usize) -> Option<Zone> {
        self.zones.zone(self.page, column)
    }
}
