//! The names of an open file that is renamed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The name with which a file was opened, and those that it was given since. Names are only added, so
/// that a reference to one remains valid.
#[derive(Debug)]
pub(crate) struct Names {
    name: PathBuf,
    next: OnceLock<Box<Names>>,
}

impl Names {
    pub(crate) fn new(name: PathBuf) -> Self {
        let next = OnceLock::new();
        Self { name, next }
    }

    fn last(&self) -> &Self {
        let mut names = self;
        while let Some(next) = names.next.get() {
            names = next;
        }
        names
    }

    pub(crate) fn newest(&self) -> &Path {
        &self.last().name
    }

    /// Notes a new name. Concurrent calls may be noted in any order.
    pub(crate) fn add(&self, name: &Path) {
        let mut added = Box::new(Self::new(name.to_path_buf()));
        while let Err(refused) = self.last().next.set(added) {
            added = refused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_name_is_returned_and_earlier_ones_stay_valid() {
        let names = Names::new("a".into());
        let first = names.newest();
        names.add("b".as_ref());
        names.add("c".as_ref());
        assert_eq!(first, Path::new("a"));
        assert_eq!(names.newest(), Path::new("c"));
    }
}
