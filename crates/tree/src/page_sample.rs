//! A sample of the pages of bottom runs, for reports on large trees.
//!
//! The samples are evenly spaced: sample `n` of `count` is at the position `n / count` of all pages. The path to it is found by
//! the numbers of pages in the totals of children, so a sample reads at most one node of each height, an index block and a
//! page. These numbers include pages of upper runs; below each child the position is scaled to the pages that are there. A
//! page is counted once, so a tree with few pages has fewer samples.

use crate::TreeInspection;
use crate::node::{Child, KeyRange, Node, RunForm, RunHandle, RunRef};
use crate::tree::Tree;
use std::collections::HashSet;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// A position in a number of pages.
#[derive(Clone, Copy)]
struct Position {
    page: u64,
    of: u64,
}

impl Position {
    /// The same position among another number of pages.
    fn scaled_to(self, pages: u64) -> Self {
        let page = u128::from(self.page) * u128::from(pages) / u128::from(self.of.max(1));
        Self {
            page: u64::try_from(page).unwrap_or(u64::MAX),
            of: pages,
        }
    }

    /// The part with the position, and the position in it. `pages_of` returns the number of pages of each part.
    fn find<P>(
        self,
        parts: impl Iterator<Item = P>,
        pages_of: impl Fn(&P) -> u64,
    ) -> Option<(P, Self)> {
        let mut page = self.page;
        for part in parts {
            let of = pages_of(&part);
            if page < of {
                return Some((part, Self { page, of }));
            }
            page -= of;
        }
        None
    }
}

/// The pages of a child, without those of the runs of an inner child.
fn pages_below(child: &Child) -> u64 {
    match &child.below {
        Some(link) => link.summary().pages,
        None => child.summary.pages,
    }
}

fn bottom_runs(child: &Child) -> impl Iterator<Item = &RunRef> {
    let runs = child.runs.iter();
    runs.filter(|run| run.handle.form == RunForm::Bottom)
}

fn pages_of(run: &RunRef) -> u64 {
    run.handle.run.description().index.pages()
}

impl Tree {
    /// Reads at most `count` pages of bottom runs. The result contains the parts of these pages, and their numbers and
    /// sizes, but neither levels nor index blocks. Before each page `may_continue` is called; when it returns `false`, the call
    /// ends with `Interrupted`.
    ///
    /// # Errors
    /// Errors of reading blocks; `Interrupted`.
    pub fn sample_pages(
        &self,
        count: u32,
        may_continue: &mut dyn FnMut() -> bool,
    ) -> StorageResult<TreeInspection> {
        let version = self.version.load_full();
        let mut found = TreeInspection::default();
        let (mut seen, mut parts) = (HashSet::new(), Vec::new());
        for sample in 0..count {
            if !may_continue() {
                return Err(StorageError::Interrupted);
            }
            let position = Position {
                page: sample.into(),
                of: count.into(),
            };
            let Some((run, page)) = self.page_at(&version.root, position)? else {
                continue;
            };
            if seen.insert((run.id(), page))
                && let Some(page) = run.run.sizes_of_page(page, &mut parts)?
            {
                found.add_page(&page);
            }
        }
        Ok(found)
    }

    /// The bottom run at a position below a node, and the number of the page in the run. `None` if there is no bottom run.
    fn page_at(
        &self,
        root: &Arc<Node>,
        mut position: Position,
    ) -> StorageResult<Option<(Arc<RunHandle>, u64)>> {
        let mut node = Arc::clone(root);
        let mut range = KeyRange::all();
        loop {
            let pages = node.children.iter().map(|child| pages_below(child)).sum();
            let children = node.children_with_ranges(&range);
            let found = position
                .scaled_to(pages)
                .find(children, |(child, _)| pages_below(child));
            let Some(((child, child_range), within)) = found else {
                return Ok(None);
            };
            let Some(link) = &child.below else {
                let pages = bottom_runs(child).map(pages_of).sum();
                let within = within.scaled_to(pages);
                let found = within.find(bottom_runs(child), |run| pages_of(run));
                return Ok(found.map(|(run, within)| (Arc::clone(&run.handle), within.page)));
            };
            let below = self.nodes.load(link, &child_range)?.to_arc();
            (node, range, position) = (below, child_range, within);
        }
    }
}
