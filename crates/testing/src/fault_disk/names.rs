//! The names of the files: the current ones, the durable ones, and the changes
//! between the two.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Identifies the contents of a file independently of its name.
pub(super) type ContentId = u64;

type Table = BTreeMap<PathBuf, ContentId>;

#[derive(Clone, Debug)]
enum Change {
    Create(PathBuf, ContentId),
    Remove(PathBuf, ContentId),
    Rename(PathBuf, PathBuf, ContentId),
}

#[derive(Debug, Default)]
pub(super) struct Names {
    current: Table,
    durable: Table,
    unsynced: Vec<Change>,
    directories: BTreeSet<PathBuf>,
    /// The directories that a power loss may lose, with everything in them.
    unsynced_directories: BTreeSet<PathBuf>,
}

/// Whether a directory is in the root, or is the root.
fn is_at_the_top(directory: &Path) -> bool {
    directory.ancestors().nth(2).is_none()
}

impl Change {
    fn apply(&self, table: &mut Table) {
        match self {
            Self::Create(path, id) => {
                table.insert(path.clone(), *id);
            }
            Self::Remove(path, id) => {
                // If an earlier change is lost, the name may belong to another file.
                if table.get(path) == Some(id) {
                    table.remove(path);
                }
            }
            Self::Rename(_, to, id) => {
                // Journals keep the order of the changes of a file: it loses its earlier names.
                table.retain(|_, named| named != id);
                table.insert(to.clone(), *id);
            }
        }
    }

    /// Whether a sync of the directory makes this change durable. A rename between two directories
    /// is one step of the file system's journal, so a sync of either makes it durable.
    fn is_in(&self, directory: &Path) -> bool {
        let inside = |path: &Path| path.parent() == Some(directory);
        match self {
            Self::Create(path, _) | Self::Remove(path, _) => inside(path),
            Self::Rename(from, to, _) => inside(from) || inside(to),
        }
    }

    fn id(&self) -> ContentId {
        match self {
            Self::Create(_, id) | Self::Remove(_, id) | Self::Rename(_, _, id) => *id,
        }
    }
}

impl Names {
    pub fn get(&self, path: &Path) -> Option<ContentId> {
        self.current.get(path).copied()
    }

    pub fn exists(&self, path: &Path) -> bool {
        self.current.contains_key(path) || self.directories.contains(path)
    }

    pub fn list(&self, directory: &Path) -> Vec<PathBuf> {
        self.current
            .keys()
            .chain(&self.directories)
            .filter(|path| path.parent() == Some(directory))
            .cloned()
            .collect()
    }

    pub fn create_directories(&mut self, directory: &Path) {
        for ancestor in directory.ancestors() {
            let is_new = self.directories.insert(ancestor.to_path_buf());
            if is_new && !is_at_the_top(ancestor) {
                self.unsynced_directories.insert(ancestor.to_path_buf());
            }
        }
    }

    pub fn create(&mut self, path: &Path, id: ContentId) {
        self.change(Change::Create(path.to_path_buf(), id));
    }

    /// Removes a name and returns the id of its contents; `None` if there is no such name.
    pub fn remove(&mut self, path: &Path) -> Option<ContentId> {
        let id = self.get(path)?;
        self.change(Change::Remove(path.to_path_buf(), id));
        Some(id)
    }

    /// Renames a file. Returns false if there is no such name.
    pub fn rename(&mut self, from: &Path, to: &Path) -> bool {
        let Some(id) = self.get(from) else {
            return false;
        };
        self.change(Change::Rename(from.to_path_buf(), to.to_path_buf(), id));
        true
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    /// Makes the changes of a directory durable. Returns the content ids of the changed names;
    /// these contents may have lost their last name.
    pub fn sync(&mut self, directory: &Path) -> Vec<ContentId> {
        self.unsynced_directories
            .retain(|made| made.parent() != Some(directory));
        let mut changed = Vec::new();
        let mut rest = Vec::new();
        for change in std::mem::take(&mut self.unsynced) {
            if change.is_in(directory) {
                if let Change::Rename(_, to, _) = &change {
                    changed.extend(self.durable.get(to));
                }
                change.apply(&mut self.durable);
                changed.push(change.id());
                // After a durable rename, earlier changes of this file must not be applied again.
                if let Change::Rename(_, _, id) = change {
                    rest.retain(|earlier: &Change| earlier.id() != id);
                }
            } else {
                rest.push(change);
            }
        }
        self.unsynced = rest;
        changed
    }

    /// The contents that have a name now.
    pub fn named(&self) -> BTreeSet<ContentId> {
        self.current.values().copied().collect()
    }

    /// Whether these contents have a name, or may have one after a power loss.
    pub fn refers_to(&self, id: ContentId) -> bool {
        let held = |table: &Table| table.values().any(|&named| named == id);
        held(&self.current)
            || held(&self.durable)
            || self.unsynced.iter().any(|change| change.id() == id)
    }

    /// A possible state after a power loss.
    pub fn after_power_loss(&self, random: &mut Random) -> Names {
        let mut table = self.durable.clone();
        // The changes that survive: 0 none, 1 all, 2 all before a point in time, 3 a random subset.
        let style = random.below(4);
        let moment = random.below(self.unsynced.len() as u64 + 1);
        for (number, change) in (0u64..).zip(&self.unsynced) {
            let any = random.one_in(2);
            if style == 1 || (style == 2 && number < moment) || (style == 3 && any) {
                change.apply(&mut table);
            }
        }
        let unsynced = self.unsynced_directories.iter();
        let lost: Vec<&PathBuf> = unsynced
            .filter(|_| match style {
                0 => true,
                1 => false,
                _ => random.one_in(2),
            })
            .collect();
        let survives = |path: &Path| !lost.iter().any(|lost| path.starts_with(lost));
        table.retain(|path, _| survives(path));
        let mut directories = self.directories.clone();
        directories.retain(|path| survives(path));
        Names {
            current: table.clone(),
            durable: table,
            unsynced: Vec::new(),
            directories,
            unsynced_directories: BTreeSet::new(),
        }
    }
}
