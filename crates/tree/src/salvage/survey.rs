//! Lists the parts of a tree that cannot be read.

use super::run::{lost_page, lost_value};
use crate::Page;
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{KeyRange, Node, RunForm, RunHandle, RunRef};
use crate::tree::Tree;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

/// The runs with the ranges of the references to them.
type Runs = HashMap<*const RunHandle, (RunRef, Vec<KeyRange>)>;

fn collect(node: &Node, runs: &mut Runs) {
    for child in &node.children {
        for run in &child.runs {
            let entry = runs.entry(Arc::as_ptr(&run.handle));
            let (_, ranges) =
                entry.or_insert_with(|| (RunRef::whole(Arc::clone(&run.handle)), Vec::new()));
            ranges.push(run.range());
        }
        if let Some(below) = &child.below {
            collect(below, runs);
        }
    }
}

impl Tree {
    /// Reads all blocks of the current runs, and the separate values of their entries, from the
    /// disk. Calls `found` for the nodes that could not be read when the tree was opened, then for
    /// each part that cannot be read now. `may_continue` is called for each page and each separate
    /// value.
    ///
    /// # Errors
    /// `Interrupted` when `may_continue` returns false; errors other than those
    /// of single blocks.
    pub fn survey(
        &self,
        may_continue: &mut dyn FnMut() -> bool,
        found: &mut dyn FnMut(&LostPart),
    ) -> StorageResult<()> {
        self.lost.iter().for_each(&mut *found);
        let version = self.version.load_full();
        let mut runs = Runs::new();
        collect(&version.root, &mut runs);
        let mut runs: Vec<(RunRef, Vec<KeyRange>)> = runs.into_values().collect();
        let place = |run: &RunRef| run.handle.description().index.map(|index| index.offset);
        runs.sort_by(|(a, _), (b, _)| (a.lower(), place(a)).cmp(&(b.lower(), place(b))));
        for (run, ranges) in &runs {
            survey_run(run, ranges, may_continue, found)?;
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
    let index = match run.handle.run.stored_index() {
        Ok(Some(index)) => index,
        Ok(None) => return Ok(()),
        Err(error) if is_loss(&error) => {
            found(&LostPart {
                entries: Some(run.handle.description().entries()),
                hides_older: run.handle.form == RunForm::Upper,
                ..LostPart::new(LostKind::Run, run.lower(), run.upper(), error)
            });
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for number in 0..index.pages().len() {
        if !may_continue() {
            return Err(StorageError::Interrupted);
        }
        match run.handle.run.stored_page(&index, number) {
            Ok(page) => survey_values(run, ranges, &page, may_continue, found)?,
            Err(error) if is_loss(&error) => found(&lost_page(run, &index, number, error)),
            Err(error) => return Err(error),
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
