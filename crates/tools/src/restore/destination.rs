//! The new data directory.
//!
//! Until the restore is complete, everything is in one directory below it, whose name says that it is incomplete. So the
//! data directory has no system tables, and a server does not start on it. At the end the files are moved up, the
//! directory `mysql` with the system tables last.

use crate::paths::{named, private_directories};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

/// The directory in which an incomplete restore is.
const INCOMPLETE: &str = "teak-restore.incomplete";

/// Explains the directory.
const EXPLANATION: &str = "README";

/// Moved last: without the system tables no server starts.
const LAST: &str = "mysql";

/// Moved last if there are no system tables: without it the directory is no data directory of Teak.
const CATALOGUE: &str = "teak.catalogue";

#[derive(Debug)]
pub(super) struct Destination {
    pub directory: PathBuf,
    /// The new files are here until the restore is complete.
    pub data: PathBuf,
    /// A copy of the backup, which mariadb-backup changes.
    pub copy: PathBuf,
    /// A copy of an increment.
    pub increment: PathBuf,
    /// Temporary files of the server.
    pub temporary: PathBuf,
    incomplete: PathBuf,
    /// User and group of the files, and of the process.
    pub owner: (u32, u32),
    pub own: u32,
}

/// Refuses a directory that is not empty. It need not exist.
pub(super) fn check_empty(directory: &Path) -> io::Result<()> {
    let mut entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| named(directory, &error))?,
    };
    let shown = directory.display();
    if directory.join(INCOMPLETE).exists() {
        let text = format!("{shown} contains an incomplete restore: remove {shown}/{INCOMPLETE}");
        return Err(io::Error::other(text));
    }
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(io::Error::other(format!("{shown} is not empty"))),
    }
}

/// Calls `each` for a path and all below it, except links' targets.
fn visit(path: &Path, each: &mut dyn FnMut(&Path, bool) -> io::Result<()>) -> io::Result<()> {
    let is_directory = fs::symlink_metadata(path)?.is_dir();
    if is_directory {
        for entry in fs::read_dir(path)? {
            visit(&entry?.path(), each)?;
        }
    }
    each(path, is_directory).map_err(|error| named(path, &error))
}

impl Destination {
    /// Creates the directory if there is none, and in it the one for an incomplete restore.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        check_empty(directory)?;
        let at = |path: &Path| private_directories().recursive(true).create(path);
        at(directory).map_err(|error| named(directory, &error))?;
        let directory = directory.canonicalize()?;
        let incomplete = directory.join(INCOMPLETE);
        let [data, copy, increment, temporary] =
            ["data", "backup", "increment", "tmp"].map(|name| incomplete.join(name));
        for path in [&incomplete, &data, &temporary] {
            at(path).map_err(|error| named(path, &error))?;
        }
        let path = incomplete.join(EXPLANATION);
        let text = "This directory is an incomplete restore of a backup by `teak restore`. Its data is not usable.\n\
                    Remove it before the next attempt.\n";
        fs::write(&path, text).map_err(|error| named(&path, &error))?;
        let (of, own) = (fs::metadata(&directory)?, fs::metadata(&incomplete)?);
        // Only root may change the owner.
        let owner = match own.uid() {
            0 => (of.uid(), of.gid()),
            _ => (own.uid(), own.gid()),
        };
        File::open(&directory)?.sync_all()?;
        Ok(Self {
            directory,
            data,
            copy,
            increment,
            temporary,
            incomplete,
            owner,
            own: own.uid(),
        })
    }

    /// A file for the output of a program.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.incomplete.join(name)
    }

    /// Gives all files to the owner of the directory.
    pub(super) fn change_owner(&self) -> io::Result<()> {
        if self.owner.0 == self.own {
            return Ok(());
        }
        let (user, group) = self.owner;
        visit(&self.incomplete, &mut |path, _| {
            lchown(path, Some(user), Some(group))
        })
    }

    /// Records the failure for those who find the directory later, and returns the error with a hint.
    pub(super) fn failed(&self, error: &io::Error) -> io::Error {
        // The error is reported in any case.
        let _ = fs::write(self.incomplete.join("error"), format!("{error}\n"));
        io::Error::other(format!(
            "{error}\nthe restore is incomplete; no server can start on {}. Remove {} before the next attempt",
            self.directory.display(),
            self.incomplete.display()
        ))
    }

    /// Makes the restored files the content of the data directory.
    pub(super) fn complete(&self) -> io::Result<()> {
        self.change_owner()?;
        visit(&self.data, &mut |path, _| File::open(path)?.sync_all())?;
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.data)? {
            names.push(entry?.file_name());
        }
        names.sort_by_key(|name| (name == LAST, name == CATALOGUE));
        for name in names {
            let to = self.directory.join(&name);
            fs::rename(self.data.join(&name), &to).map_err(|error| named(&to, &error))?;
        }
        File::open(&self.directory)?.sync_all()?;
        fs::remove_dir_all(&self.incomplete).map_err(|error| named(&self.incomplete, &error))?;
        File::open(&self.directory)?.sync_all()
    }

    /// A hint if the files belong to a user that may not be the server's.
    pub(super) fn hint(&self) -> Option<String> {
        let of = fs::metadata(&self.directory).ok()?;
        let shown = self.directory.display();
        match (self.own, of.uid()) {
            (0, 0) => Some(format!(
                "the files belong to root; for a server of another user: chown -R mysql:mysql {shown}"
            )),
            (own, of) if own != 0 && own != of => Some(format!(
                "the files belong to user {own}, and {shown} to user {of}: change their owner before a server starts"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("teak-place-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn an_incomplete_restore_has_no_data_directory() {
        let path = base("incomplete");
        let place = Destination::create(&path).unwrap();
        fs::create_dir(place.data.join("mysql")).unwrap();
        fs::write(place.data.join("ibdata1"), "x").unwrap();
        let error = place.failed(&io::Error::other("the disk is full"));
        assert!(error.to_string().contains("is incomplete"), "{error}");
        let names: Vec<_> = fs::read_dir(&path).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(
            fs::read_to_string(path.join("teak-restore.incomplete/error")).unwrap(),
            "the disk is full\n"
        );
        let error = Destination::create(&path).unwrap_err().to_string();
        assert!(error.contains("contains an incomplete restore"), "{error}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_complete_restore_has_only_the_data() {
        let path = base("complete");
        let place = Destination::create(&path).unwrap();
        fs::create_dir(place.data.join("mysql")).unwrap();
        fs::write(place.data.join("mysql/user.frm"), "x").unwrap();
        fs::write(place.data.join("ibdata1"), "x").unwrap();
        place.complete().unwrap();
        let mut names: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["ibdata1", "mysql"]);
        assert!(path.join("mysql/user.frm").exists());
        let error = check_empty(&path).unwrap_err().to_string();
        assert!(error.contains("is not empty"), "{error}");
        fs::remove_dir_all(path).unwrap();
    }
}
