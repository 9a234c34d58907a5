//! Checks a run: every block is read from the disk, not from the cache, and
//! compared with the index blocks and the description.

use super::index_table::bound_between;
use super::verify_zones::ZonesOfPage;
use super::{IndexBlock, Run, RunDescription, SeparateTotals};
use crate::Page;
use crate::page::PAGE_LAYOUT;
use teak_base::{Operation, StorageError, StorageResult, WriteId};
use teak_block_file::{BlockAddress, BlockKind};

/// Counts of a check in progress.
#[derive(Default)]
struct Walk {
    puts: u64,
    deletes: u64,
    keys: u64,
    last_key: Option<Vec<u8>>,
    /// The bound before the index block.
    bound: Vec<u8>,
    /// Whether the last entry was settled, so that no older version of its key may follow.
    closed: bool,
    separate: SeparateTotals,
    /// One past the last byte, in the file, of all blocks and separate values so far.
    blocks_end: u64,
}

impl Run {
    /// Reads all blocks of the run, and the separate values of the entries for whose keys `is_live`
    /// returns true, and checks that they agree. `progress` is called for each page and each
    /// separate value; when it returns false, the check ends. Appends the addresses of the blocks
    /// and values.
    ///
    /// # Errors
    /// `Corrupt`, `Interrupted`, `Io`.
    pub(crate) fn verify(
        &self,
        blocks: &mut Vec<BlockAddress>,
        is_live: &dyn Fn(&[u8]) -> bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> StorageResult<()> {
        let Some(first) = self.description.index.first() else {
            return Ok(());
        };
        let mut walk = Walk::default();
        for (number, address) in self.description.index.addresses().enumerate() {
            blocks.push(address);
            walk.blocks_end = walk.blocks_end.max(address.end());
            let block = self.stored_index_block(number)?;
            walk.start_block(self.description.index.bound_before(number));
            self.verify_pages(&mut walk, &block, blocks, is_live, progress)?;
        }
        if walk.blocks_end != self.description.blocks_end {
            return Err(self.corrupt(first, "the end of the run's blocks is wrong"));
        }
        match walk.end(&self.description) {
            Some(reason) => Err(self.corrupt(first, reason)),
            None => Ok(()),
        }
    }

    /// Checks the pages of an index block.
    fn verify_pages(
        &self,
        walk: &mut Walk,
        index: &IndexBlock,
        blocks: &mut Vec<BlockAddress>,
        is_live: &dyn Fn(&[u8]) -> bool,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> StorageResult<()> {
        for (number, record) in index.pages().iter().enumerate() {
            let address = record.address;
            blocks.push(address);
            let block = self.file.read_block(address, BlockKind::Page)?;
            let malformed = || self.corrupt(address, "the page is malformed");
            if block.description.layout != PAGE_LAYOUT {
                return Err(malformed());
            }
            let zones = match index.has_zones() {
                true => Some(ZonesOfPage::open(index, number, &block.raw)),
                false => None,
            };
            let page = Page::decode(block.raw).map_err(|_| malformed())?;
            let fault = zones
                .and_then(|zones| zones.fault(&page, walk.last_key.as_deref()))
                .or_else(|| walk.page(&page, index, number, &self.description))
                .or_else(|| (page.entries() != record.entries as usize).then_some(WRONG_COUNT));
            if let Some(reason) = fault {
                return Err(self.corrupt(address, reason));
            }
            if !progress(page.entries() as u64) {
                return Err(StorageError::Interrupted);
            }
            for (entry, reference) in page.references() {
                if !is_live(page.key(entry)) {
                    continue;
                }
                self.load_separate(&reference)?;
                blocks.push(reference.address);
                if !progress(0) {
                    return Err(StorageError::Interrupted);
                }
            }
        }
        Ok(())
    }
}

const WRONG_COUNT: &str = "the page and its index block disagree";

impl Walk {
    /// Begins an index block, after this bound.
    fn start_block(&mut self, bound: &[u8]) {
        self.bound.clear();
        self.bound.extend_from_slice(bound);
    }

    /// Checks a page. On a violation, returns the reason.
    fn page(
        &mut self,
        page: &Page,
        index: &IndexBlock,
        number: usize,
        description: &RunDescription,
    ) -> Option<&'static str> {
        for entry in 0..page.entries() {
            let key = page.key(entry);
            let new_key = match self.last_key.as_deref() {
                Some(last) if key < last => return Some("keys descend"),
                Some(last) => key != last,
                // Look-ups before the first key skip the run.
                None if key != description.first_key => {
                    return Some("the run's first key is wrong");
                }
                None => true,
            };
            if entry == 0 && number == 0 && self.last_key.is_some() {
                let last = self.last_key.as_deref().unwrap_or_default();
                if !new_key || bound_between(last, key) != self.bound {
                    return Some("the bound between two index blocks is wrong");
                }
            }
            if new_key {
                self.keys += 1;
                let last = self.last_key.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
            } else if self.closed {
                return Some("an entry follows a newer one that supersedes it");
            }
            if new_key && !index.may_contain(description.filter_keys.hash(key)) {
                return Some("the filter does not contain a key of its pages");
            }
            let (operation, id) = page.write(entry);
            self.closed = id.is_settled();
            match operation {
                Operation::Put => self.puts += 1,
                Operation::Delete => self.deletes += 1,
            }
            if id.is_settled() && description.all_unsettled {
                return Some("an entry is settled in a run without settled entries");
            }
            if !id.is_settled() && !covers(description.write_ids, id) {
                return Some("a write id is outside the run's range");
            }
        }
        let Some(record) = index.pages().get(number) else {
            return Some(WRONG_COUNT);
        };
        let mut values_end = 0;
        for (_, reference) in page.references() {
            self.separate.add(&reference);
            values_end = values_end.max(reference.address.end());
        }
        if values_end != record.values_end {
            return Some("the end of the page's separate values is wrong");
        }
        self.blocks_end = self.blocks_end.max(record.address.end()).max(values_end);
        match page.entries().checked_sub(1) {
            Some(last) if page.key(last) == index.last_key(number) => None,
            _ => Some("the page's last key is not the one in the index"),
        }
    }

    fn end(&self, description: &RunDescription) -> Option<&'static str> {
        let counted = (self.puts, self.deletes, self.keys);
        let expected = (description.puts, description.deletes, description.keys);
        if counted != expected {
            return Some("the run's counts are wrong");
        }
        if self.separate != description.separate {
            return Some("the run's totals of separate values are wrong");
        }
        if self.last_key.as_deref() != Some(&description.last_key) {
            return Some("the run's last key is wrong");
        }
        None
    }
}

fn covers(ids: Option<(WriteId, WriteId)>, id: WriteId) -> bool {
    ids.is_some_and(|(min, max)| min <= id && id <= max)
}
