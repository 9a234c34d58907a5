//! Lists the parts of a tree that cannot be read.

use super::run::{lost_page, lost_pages, lost_value};
use crate::Page;
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{KeyRange, Node, RunId, RunRef};
use crate::run::PageNumber;
use crate::tree::Tree;
use std::collections::HashMap;
use teak_base::{StorageError, StorageResult};

/// A survey in progress.
struct Survey<'a> {
    tree: &'a Tree,
    may_continue: &'a mut dyn FnMut() -> bool,
    found: &'a mut dyn FnMut(&LostPart),
    /// The runs of which children refer to parts, with the ranges of the parts.
    clipped: HashMap<RunId, (RunRef, Vec<KeyRange>)>,
}

impl Tree {
    /// Reads all blocks of the current version from the disk, and passes those to
    /// `found` that cannot be read. `may_continue` is called for each page. Nodes
    /// that are not in memory do not remain there.
    ///
    /// # Errors
    /// `Interrupted` when `may_continue` returns false; errors other than those
    /// of single blocks.
    pub fn survey(
        &self,
        may_continue: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(&LostPart),
    ) -> StorageResult<()> {
        let version = self.version.load_full();
        let mut survey = Survey {
            tree: self,
            may_continue,
            found,
            clipped: HashMap::new(),
        };
        self.lost.iter().for_each(&mut *survey.found);
        survey.node(&version.root, &KeyRange::all())?;
        let clipped = std::mem::take(&mut survey.clipped);
        let mut clipped: Vec<_> = clipped.into_iter().collect();
        clipped.sort_by(|(id_a, (a, _)), (id_b, (b, _))| {
            a.lower().cmp(b.lower()).then(id_a.cmp(id_b))
        });
        for (_, (run, ranges)) in &clipped {
            survey_run(run, ranges, survey.may_continue, survey.found)?;
        }
        Ok(())
    }
}

impl Survey<'_> {
    fn node(&mut self, node: &Node, range: &KeyRange) -> StorageResult<()> {
        for (child, child_range) in node.children_with_ranges(range) {
            for run in &child.runs {
                if run.clip.is_none() {
                    let ranges = [run.range()];
                    survey_run(run, &ranges, self.may_continue, self.found)?;
                    continue;
                }
                let entry = self.clipped.entry(run.handle.id());
                let (_, ranges) =
                    entry.or_insert_with(|| (RunRef::whole(run.handle.clone()), Vec::new()));
                ranges.push(run.range());
            }
            if let Some(link) = &child.below {
                match self.tree.nodes.read_again(link, &child_range) {
                    Ok(below) => self.node(&below, &child_range)?,
                    Err(error) if is_loss(&error) => {
                        let upper = child_range.upper.as_deref();
                        let lower = &child_range.lower;
                        (self.found)(&LostPart::new(LostKind::Subtree, lower, upper, error));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn survey_run(
    run: &RunRef,
    ranges: &[KeyRange],
    may_continue: &mut dyn FnMut() -> bool,
    found: &mut dyn FnMut(&LostPart),
) -> StorageResult<()> {
    for number in 0..run.handle.description().index.len() {
        let block = match run.handle.run.stored_index_block(number) {
            Ok(block) => block,
            Err(error) if is_loss(&error) => {
                found(&lost_pages(run, number, error));
                continue;
            }
            Err(error) => return Err(error),
        };
        for place in 0..block.pages().len() {
            if !may_continue() {
                return Err(StorageError::Interrupted);
            }
            let page = PageNumber::new(number, place);
            match run.handle.run.stored_page(&block, page) {
                Ok(page) => survey_values(run, ranges, &page, may_continue, found)?,
                Err(error) if is_loss(&error) => found(&lost_page(run, &block, page, error)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Reads the separate values of the entries of a page, except those of entries outside all
/// references to the run, which may have been freed.
fn survey_values(
    run: &RunRef,
    ranges: &[KeyRange],
    page: &Page,
    may_continue: &mut dyn FnMut() -> bool,
    found: &mut dyn FnMut(&LostPart),
) -> StorageResult<()> {
    for (entry, reference) in page.references() {
        let key = page.key(entry);
        if !ranges.iter().any(|range| range.contains(key)) {
            continue;
        }
        if !may_continue() {
            return Err(StorageError::Interrupted);
        }
        match run.handle.run.load_separate(&reference) {
            Ok(_) => {}
            Err(error) if is_loss(&error) => found(&lost_value(key, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
