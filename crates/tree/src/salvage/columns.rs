//! The columns of keys and values, as the pages of a tree describe them.

use crate::PageColumns;
use crate::node::{KeyRange, Node, RunForm};
use crate::tree::Tree;

impl Tree {
    /// The columns that a readable page of a bottom run describes, for a tree without a definition. `None` if no page
    /// of the runs that are searched has columns.
    #[must_use]
    pub fn stored_columns(&self) -> Option<PageColumns> {
        let version = self.version.load_full();
        self.columns_below(&version.root, &KeyRange::all())
    }

    fn columns_below(&self, node: &Node, range: &KeyRange) -> Option<PageColumns> {
        for (child, child_range) in node.children_with_ranges(range) {
            let bottom = child
                .runs
                .iter()
                .filter(|run| run.handle.form == RunForm::Bottom);
            let mut columns = bottom.filter_map(|run| run.handle.run.stored_columns());
            if let Some(columns) = columns.next() {
                return Some(columns);
            }
            if let Some(link) = &child.below
                && let Ok(below) = self.nodes.read_again(link, &child_range)
                && let Some(columns) = self.columns_below(&below, &child_range)
            {
                return Some(columns);
            }
        }
        None
    }
}
