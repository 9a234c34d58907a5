//! The separate values of a run's entries.

use super::{PageNumber, PageRecord, ReadPattern, Run};
use crate::ValueReference;
use crate::cache::{Cached, Priority};
use crate::page_counts::{count_access, count_read};
use crate::value::{ReadSeparate, SeparateValue, VALUE_LAYOUT};
use std::sync::Arc;
use teak_base::checksum::checksum;
use teak_base::limits::VALUE_BYTES_MAX;
use teak_base::{StorageError, StorageResult};
use teak_block_file::{BlockFile, BlockKind};

impl ReadSeparate for Run {
    /// Values that are too large for the cache (`PageCache::value_bytes_max`) are read from the
    /// file each time.
    #[cold]
    fn read_separate(&self, reference: &ValueReference) -> StorageResult<Arc<SeparateValue>> {
        if u64::from(reference.raw_bytes) > self.cache.value_bytes_max() {
            count_access();
            return self.load_separate(reference);
        }
        let (file, offset) = (self.file.file_id(), reference.address.offset);
        let load = || Ok(Cached::Value(self.load_separate(reference)?));
        let loaded = self
            .cache
            .get_or_load(file, offset, Priority::Normal, load)?;
        match loaded {
            Cached::Value(value) => Ok(value),
            // The cache has another block at this address, so the file is damaged. Reading the
            // block returns the error.
            Cached::Page(_) | Cached::Rows(_) | Cached::Index(_) => self.load_separate(reference),
        }
    }
}

/// Reads a separate value from a file.
pub(crate) fn read_value(file: &BlockFile, reference: &ValueReference) -> StorageResult<Vec<u8>> {
    let address = reference.address;
    let corrupt = |reason| Err(StorageError::corrupt(file.path(), address.offset, reason));
    let block = file.read_block(address, BlockKind::Value)?;
    if block.description.layout != VALUE_LAYOUT {
        return corrupt("the value is of an unknown layout");
    }
    let value = block.raw;
    if value.len() != reference.raw_bytes as usize
        || value.len() > VALUE_BYTES_MAX
        || checksum(&value) != reference.checksum
    {
        return corrupt("an entry refers to another value");
    }
    Ok(value)
}

impl Run {
    /// Reads a separate value from the file.
    ///
    /// # Errors
    /// Errors of reading blocks.
    pub(crate) fn load_separate(
        &self,
        reference: &ValueReference,
    ) -> StorageResult<Arc<SeparateValue>> {
        count_read();
        let value = read_value(&self.file, reference)?;
        let charge = self.charge_block(value.capacity());
        Ok(Arc::new(SeparateValue::new(value, charge)))
    }

    /// Appends the references of the entries from key `lower` to before `upper`. Reads the index
    /// blocks, and those pages that have references. Skips damaged pages: a merge that needs their
    /// entries fails before, and otherwise their values remain allocated.
    ///
    /// # Errors
    /// Errors of reading blocks, except `Corrupt` of a page.
    pub(crate) fn separate_values(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        references: &mut Vec<ValueReference>,
    ) -> StorageResult<()> {
        if self.description.separate.count == 0 {
            return Ok(());
        }
        let index = &self.description.index;
        let is_below_upper = |key: &[u8]| upper.is_none_or(|upper| key < upper);
        for number in index.block_of(lower)..index.len() {
            if !is_below_upper(index.bound_before(number)) {
                break;
            }
            let block = self.index_block(number, ReadPattern::Sequential, Priority::Normal)?;
            for place in block.page_of(lower)..block.pages().len() {
                // A page begins at or after the last key of the previous page: at it, if the
                // versions of that key continue.
                if let Some(before) = place.checked_sub(1)
                    && !is_below_upper(block.last_key(before))
                {
                    break;
                }
                let has_references = |record: &PageRecord| record.values_end > 0;
                if !block.pages().get(place).is_some_and(has_references) {
                    continue;
                }
                let page = PageNumber::new(number, place);
                let page = match self.page(&block, page, ReadPattern::Sequential) {
                    Err(error) if error.is_corrupt() => continue,
                    read => read?,
                };
                let within = page.references().filter(|(entry, _)| {
                    let key = page.key(*entry);
                    lower <= key && is_below_upper(key)
                });
                references.extend(within.map(|(_, reference)| reference));
            }
        }
        Ok(())
    }
}
