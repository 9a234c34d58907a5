//! Lists everything in a tree that cannot be read.

use super::run::lost_page;
use crate::lost_part::{LostKind, LostPart, is_loss};
use crate::node::{Node, RunForm, RunHandle, RunRef};
use crate::tree::Tree;
use std::collections::HashMap;
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};

type Runs = HashMap<*const RunHandle, RunRef>;

fn collect(node: &Node, runs: &mut Runs) {
    for child in &node.children {
        for run in &child.runs {
            let whole = RunRef::whole(Arc::clone(&run.handle));
            runs.insert(Arc::as_ptr(&run.handle), whole);
        }
        if let Some(below) = &child.below {
            collect(below, runs);
        }
    }
}

impl Tree {
    /// Reads all blocks of the current runs from the disk, and passes those to
    /// `found` that cannot be read, after those that were found when the tree
    /// was opened. `may_continue` is called for each page.
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
        let mut runs: Vec<RunRef> = runs.into_values().collect();
        let place = |run: &RunRef| run.handle.description().index.map(|index| index.offset);
        runs.sort_by(|a, b| (a.lower(), place(a)).cmp(&(b.lower(), place(b))));
        for run in &runs {
            survey_run(run, may_continue, found)?;
        }
        Ok(())
    }
}

fn survey_run(
    run: &RunRef,
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
            Ok(_) => {}
            Err(error) if is_loss(&error) => found(&lost_page(run, &index, number, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
