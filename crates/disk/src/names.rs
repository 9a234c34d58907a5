//! The names of an open file that is renamed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Renamings that are followed. New index files are renamed once; more of them are renamings of a table
/// whose files remain open.
const FOLLOWED_MAX: usize = 4;

/// The name with which a file was opened, and those of its first renamings. A file that is renamed more often while
/// it is open keeps the last of these in messages. Names are only added, so that a reference to one remains
/// valid.
#[derive(Debug)]
pub(crate) struct Names {
    opened_as: PathBuf,
    later: [OnceLock<PathBuf>; FOLLOWED_MAX],
}

impl Names {
    pub(crate) fn new(opened_as: PathBuf) -> Self {
        let later = Default::default();
        Self { opened_as, later }
    }

    pub(crate) fn newest(&self) -> &Path {
        let later = self.later.iter().rev().find_map(OnceLock::get);
        later.unwrap_or(&self.opened_as)
    }

    /// Notes a new name. Concurrent calls may be noted in any order.
    pub(crate) fn add(&self, name: &Path) {
        let mut name = name.to_path_buf();
        for later in &self.later {
            match later.set(name) {
                Ok(()) => return,
                Err(refused) => name = refused,
            }
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

    #[test]
    fn a_file_that_is_renamed_again_and_again_keeps_few_names() {
        let names = Names::new("0".into());
        for number in 1..1000 {
            names.add(number.to_string().as_ref());
        }
        assert_eq!(names.newest(), Path::new("4"));
    }
}
