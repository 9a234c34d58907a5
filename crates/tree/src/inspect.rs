//! The shape of a tree, and what each part of its pages takes. For tools: reads the whole file. For a sample of pages see
//! `page_sample`.

use crate::node::{KeyRange, Node, RunForm, RunHandle, RunId, RunRef};
use crate::page::PagePart;
use crate::run::PageSizes;
use crate::tree::Tree;
use std::collections::{BTreeMap, HashSet};
use teak_base::{StorageError, StorageResult};

/// The children at one height of a tree, and their runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelShape {
    /// Nodes.
    pub nodes: u64,
    /// Children: leaves at the lowest level.
    pub children: u64,
    /// Bottom runs.
    pub bottom_runs: u64,
    /// Upper runs. A run to which several children refer counts once.
    pub upper_runs: u64,
    /// Maximum number of upper runs of a child.
    pub child_runs_max: u64,
    /// Entries in these runs.
    pub entries: u64,
    /// Deletes among them.
    pub deletes: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Raw bytes of pages, and of separate values.
    pub raw_bytes: u64,
    /// Bytes in the file.
    pub stored_bytes: u64,
}

/// What a part takes in all pages of bottom runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartTotals {
    /// The kind of the values and the bytes of each, if it is a column of fixed width.
    pub column: Option<(crate::ColumnKind, usize)>,
    /// The number of pages with each encoding.
    pub encodings: BTreeMap<&'static str, u64>,
    /// The number of values.
    pub values: u64,
    /// Bytes of the values.
    pub raw_bytes: u64,
    /// Bytes in pages, before the codec of the table has compressed these.
    pub encoded_bytes: u64,
}

impl PartTotals {
    /// The encodings with their shares of the pages, the most frequent first: `differences 90 %, plain 10 %`.
    #[must_use]
    pub fn encodings_text(&self) -> String {
        let pages: u64 = self.encodings.values().sum();
        let mut encodings: Vec<_> = self.encodings.iter().collect();
        encodings.sort_by_key(|(_, pages)| std::cmp::Reverse(**pages));
        let share = |of: u64| (of * 100).checked_div(pages).unwrap_or(0);
        let texts = encodings
            .into_iter()
            .map(|(name, of)| format!("{name} {} %", share(*of)));
        texts.collect::<Vec<String>>().join(", ")
    }
}

/// The result of [`Tree::inspect`] and of [`Tree::sample_pages`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeInspection {
    /// The levels, the lowest first.
    pub levels: Vec<LevelShape>,
    /// The parts of the pages of bottom runs.
    pub parts: BTreeMap<PagePart, PartTotals>,
    /// Pages of bottom runs.
    pub pages: u64,
    /// Their bytes before the codec of the table has compressed them.
    pub encoded_bytes: u64,
    /// Their bytes in the file.
    pub page_bytes: u64,
    /// Index blocks of bottom runs.
    pub index_blocks: u64,
    /// Bytes of the filters in these.
    pub filter_bytes: u64,
    /// Entries of bottom runs.
    pub entries: u64,
}

impl Tree {
    /// Reads all nodes, and all blocks of bottom runs. `progress` is called for every page; when it returns false, the
    /// inspection ends with `Interrupted`.
    ///
    /// # Errors
    /// Errors of reading blocks; `Interrupted`.
    pub fn inspect(
        &self,
        progress: &mut dyn FnMut(&TreeInspection) -> bool,
    ) -> StorageResult<TreeInspection> {
        let version = self.load_version();
        let mut walk = Walk {
            tree: self,
            found: TreeInspection::default(),
            seen: HashSet::new(),
            progress,
        };
        walk.node(&version.root, &KeyRange::all())?;
        Ok(walk.found)
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    found: TreeInspection,
    seen: HashSet<RunId>,
    progress: &'a mut dyn FnMut(&TreeInspection) -> bool,
}

impl Walk<'_> {
    fn level(&mut self, height: u8) -> &mut LevelShape {
        let place = usize::from(height).saturating_sub(1);
        let levels = &mut self.found.levels;
        if levels.len() <= place {
            levels.resize(place + 1, LevelShape::default());
        }
        #[allow(clippy::indexing_slicing)] // The list was extended.
        &mut levels[place]
    }

    fn node(&mut self, node: &Node, range: &KeyRange) -> StorageResult<()> {
        self.level(node.height).nodes += 1;
        for (child, child_range) in node.children_with_ranges(range) {
            let is_upper = |run: &&RunRef| run.handle.form == RunForm::Upper;
            let upper = child.runs.iter().filter(is_upper).count() as u64;
            let level = self.level(node.height);
            level.children += 1;
            level.child_runs_max = level.child_runs_max.max(upper);
            for run in &child.runs {
                if self.seen.insert(run.handle.id()) {
                    self.run(&run.handle, node.height)?;
                }
            }
            if let Some(link) = &child.below {
                let below = self.tree.nodes.read_again(link, &child_range)?;
                self.node(&below, &child_range)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, handle: &RunHandle, height: u8) -> StorageResult<()> {
        let description = handle.description();
        let level = self.level(height);
        match handle.form {
            RunForm::Bottom => level.bottom_runs += 1,
            RunForm::Upper => level.upper_runs += 1,
        }
        level.entries += description.entries();
        level.deletes += description.deletes;
        level.range_tombstones += description.range_tombstones.len() as u64;
        level.raw_bytes += description.raw_bytes + description.separate.raw_bytes;
        level.stored_bytes += description.stored_bytes + description.separate.stored_bytes;
        if handle.form == RunForm::Upper {
            return Ok(());
        }
        let (found, progress) = (&mut self.found, &mut *self.progress);
        handle.run.visit_blocks(&mut |filter_bytes, page| {
            found.filter_bytes += filter_bytes;
            found.index_blocks += u64::from(page.is_none());
            let Some(page) = page else {
                return Ok(());
            };
            found.add_page(page);
            match progress(found) {
                true => Ok(()),
                false => Err(StorageError::Interrupted),
            }
        })
    }
}

impl TreeInspection {
    /// Counts a page.
    pub(crate) fn add_page(&mut self, page: &PageSizes<'_>) {
        self.pages += 1;
        self.entries += page.entries;
        self.encoded_bytes += page.encoded_bytes;
        self.page_bytes += page.bytes_in_file;
        for size in page.parts {
            let totals = self.parts.entry(size.part).or_default();
            totals.column = size.column;
            *totals.encodings.entry(size.encoding).or_default() += 1;
            totals.values += size.values;
            totals.raw_bytes += size.raw_bytes;
            totals.encoded_bytes += size.encoded_bytes;
        }
    }
}
