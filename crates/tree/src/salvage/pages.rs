//! Pages below nodes that cannot be read.
//!
//! A page contains its keys, so its entries can be used without the nodes and index blocks that lead to it. What
//! is lost with a node is the order of runs: of two versions of a key on different pages it is not known which one is
//! newer, unless their write ids say so.

use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{KeyRange, Node};
use crate::page::{PAGE_LAYOUT, Page};
use crate::run::read_value;
use crate::tree::Tree;
use std::collections::HashMap;
use teak_base::{Operation, StorageError, StorageResult, WriteId};
use teak_block_file::BlockKind;

/// A version of an entry of a page.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FoundVersion<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The operation.
    pub operation: Operation,
    /// The write; settled ones were committed.
    pub write_id: WriteId,
    /// The value.
    pub value: &'a [u8],
    /// Whether the page was written for an upper run, whose entries are newer. Not known if upper and bottom runs have the same
    /// codec.
    pub is_upper: bool,
}

impl Tree {
    /// The ranges of keys below nodes that cannot be read.
    ///
    /// # Errors
    /// Errors other than those of single blocks.
    pub fn lost_subtrees(&self) -> StorageResult<Vec<LostPart>> {
        let is_subtree = |part: &&LostPart| part.kind == LostKind::Subtree;
        let mut lost: Vec<LostPart> = self.lost.iter().filter(is_subtree).cloned().collect();
        let version = self.version.load_full();
        self.add_lost(&version.root, &KeyRange::all(), &mut lost)?;
        Ok(lost)
    }

    fn add_lost(
        &self,
        node: &Node,
        range: &KeyRange,
        lost: &mut Vec<LostPart>,
    ) -> StorageResult<()> {
        for (child, child_range) in node.children_with_ranges(range) {
            let Some(link) = &child.below else {
                continue;
            };
            match self.nodes.read_again(link, &child_range) {
                Ok(below) => self.add_lost(&below, &child_range, lost)?,
                Err(error) if is_loss(&error) => {
                    let upper = child_range.upper.as_deref();
                    let part = LostPart::new(LostKind::Subtree, &child_range.lower, upper, error);
                    lost.push(part);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Passes the entries of all readable pages of the file whose keys are in one of the `ranges` to `visit`: pages by
    /// offset, and the versions of a key on a page newest first. Entries whose separate values cannot be read are left out.
    /// If the space map cannot be read, pages that were freed may be among them. `progress` is called with offsets in the
    /// file. Returns the error of the first block whose key is not available: it may be one that was freed before a key was changed.
    ///
    /// # Errors
    /// Errors of `visit`; errors other than those of single blocks.
    pub fn visit_pages(
        &self,
        ranges: &[LostPart],
        progress: &mut dyn FnMut(u64),
        visit: &mut dyn FnMut(&FoundVersion<'_>) -> StorageResult<()>,
    ) -> StorageResult<Option<StorageError>> {
        let mut locked = None;
        let options = self.options();
        let is_wanted = |key: &[u8]| {
            ranges.iter().any(|range| {
                let is_below = |upper: &Vec<u8>| key < upper.as_slice();
                range.lower.as_slice() <= key && range.upper.as_ref().is_none_or(is_below)
            })
        };
        let pages = self
            .file
            .visit_intact(BlockKind::Page, progress, &mut |_, block| {
                let codec = block.description.codec;
                let is_upper = codec == options.upper_codec && codec != options.codec;
                if block.description.layout != PAGE_LAYOUT {
                    return Ok(());
                }
                let Ok(page) = Page::decode(block.raw) else {
                    return Ok(());
                };
                let references: HashMap<usize, _> = page.references().collect();
                for entry in 0..page.entries() {
                    let key = page.key(entry);
                    if !is_wanted(key) {
                        continue;
                    }
                    let separate = match references.get(&entry).map(|of| read_value(&self.file, of))
                    {
                        Some(Err(error)) if is_loss(&error) => continue,
                        Some(Err(error @ StorageError::Key { .. })) => {
                            locked.get_or_insert(error);
                            continue;
                        }
                        read => read.transpose()?,
                    };
                    let (operation, write_id) = page.write(entry);
                    visit(&FoundVersion {
                        key,
                        operation,
                        write_id,
                        value: separate.as_deref().unwrap_or_else(|| page.value(entry)),
                        is_upper,
                    })?;
                }
                Ok(())
            })?;
        Ok(pages.or(locked))
    }
}
