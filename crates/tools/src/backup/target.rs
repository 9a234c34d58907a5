//! The directory of a backup.

use super::base::Base;
use super::client::State;
use crate::backup_info::INFO;
use crate::increments::open_list;
use crate::paths::{named, private_directories};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::path::{Path, PathBuf};
use teak_engine::{BASE_LIST_FILE, INCREMENT_CATALOGUE_FILE};

/// Where the server copies its files to, in the target.
const STAGING: &str = "#teak";

/// Moved last: without it the target is no data directory of Teak.
const CATALOGUE: &str = "teak.catalogue";

/// What was written.
pub(super) struct Written {
    /// Number of index files.
    pub files: u64,
    /// Bytes that their blocks occupy.
    pub block_bytes: u64,
    /// Bytes that the blocks in the backup occupy.
    pub changed_bytes: u64,
}

/// The directory of a backup.
pub(super) struct Target {
    pub directory: PathBuf,
    /// The server copies to this directory.
    pub staging: PathBuf,
}

impl Target {
    /// Creates the directory, and in it one that the server can write. `data` is the server's data directory, whose
    /// owner is the server's user.
    pub(super) fn create(directory: &Path, data: &Path) -> io::Result<Self> {
        let at =
            |path: &Path, outcome: io::Result<()>| outcome.map_err(|error| named(path, &error));
        at(
            directory,
            private_directories().recursive(true).create(directory),
        )?;
        let directory = directory.canonicalize()?;
        if fs::read_dir(&directory)?.next().is_some() {
            let text = format!("{} is not empty", directory.display());
            return Err(io::Error::other(text));
        }
        let staging = directory.join(STAGING);
        at(&staging, private_directories().create(&staging))?;
        let server = fs::metadata(data).map_err(|error| named(data, &error))?;
        let own = fs::metadata(&staging)?;
        if server.uid() != own.uid() {
            at(
                &staging,
                chown(&staging, Some(server.uid()), Some(server.gid())),
            )?;
            // The server's user may pass through the directory, and not list it.
            at(
                &directory,
                fs::set_permissions(&directory, Permissions::from_mode(0o711)),
            )?;
        }
        Ok(Self { directory, staging })
    }

    /// Gives the list of a base to the server.
    pub(super) fn add_base(&self, base: &Base) -> io::Result<()> {
        let path = self.staging.join(BASE_LIST_FILE);
        fs::copy(base.list.path(), &path).map_err(|error| named(&path, &error))?;
        let server = fs::metadata(&self.staging)?;
        if server.uid() != fs::metadata(&path)?.uid() {
            chown(&path, Some(server.uid()), Some(server.gid()))
                .map_err(|error| named(&path, &error))?;
        }
        Ok(())
    }

    /// Moves the files of the server's copy next to those of mariadb-backup, and writes the text about the backup.
    pub(super) fn complete(&self, state: &State, base: Option<&Base>) -> io::Result<Written> {
        let list = self.staging.join(BASE_LIST_FILE);
        if base.is_some() {
            fs::remove_file(&list).map_err(|error| named(&list, &error))?;
        }
        self.move_all(Path::new(""))?;
        let list = open_list(&self.directory)?;
        let identity = list.identity();
        let mut more = format!("id = {}\n", identity.id);
        let catalogue = match base {
            None if identity.base.is_some() => {
                return Err(io::Error::other("the server has made an increment"));
            }
            None => CATALOGUE,
            Some(base) => {
                base.check(identity)?;
                let directory = base.directory.display();
                let id = base.list.identity().id;
                more += &format!("base = {id}\nbase-directory = {directory}\n");
                INCREMENT_CATALOGUE_FILE
            }
        };
        let info = format!(
            "position = {}\nfiles = {}\nbytes = {}\n{more}",
            state.position, state.files, state.bytes_copied
        );
        let path = self.directory.join(INFO);
        fs::write(&path, info).map_err(|error| named(&path, &error))?;
        File::open(&path)?.sync_all()?;
        self.move_one(Path::new(catalogue))?;
        fs::remove_dir(&self.staging).map_err(|error| named(&self.staging, &error))?;
        File::open(&self.directory)?.sync_all()?;
        let files = list.files();
        Ok(Written {
            files: files.len() as u64,
            block_bytes: files.iter().map(|file| file.block_bytes).sum(),
            changed_bytes: files.iter().map(|file| file.changed_bytes).sum(),
        })
    }

    /// Moves the files of a directory, except the catalogue.
    fn move_all(&self, relative: &Path) -> io::Result<()> {
        let from = self.staging.join(relative);
        for entry in fs::read_dir(&from).map_err(|error| named(&from, &error))? {
            let entry = entry?;
            let path = relative.join(entry.file_name());
            let name = path.to_string_lossy();
            if entry.file_type()?.is_dir() {
                self.move_all(&path)?;
                fs::remove_dir(entry.path())?;
            } else if ![CATALOGUE, INCREMENT_CATALOGUE_FILE].contains(&name.as_ref()) {
                self.move_one(&path)?;
            }
        }
        let directory = self.directory.join(relative);
        File::open(&directory)
            .and_then(|opened| opened.sync_all())
            .map_err(|error| named(&directory, &error))
    }

    fn move_one(&self, relative: &Path) -> io::Result<()> {
        let (from, to) = (self.staging.join(relative), self.directory.join(relative));
        if let Some(parent) = to.parent() {
            private_directories().recursive(true).create(parent)?;
        }
        let own = fs::metadata(&self.directory)?;
        // The server's user can write the directory, so links in it are not followed.
        let file = fs::symlink_metadata(&from).map_err(|error| named(&from, &error))?;
        if !file.is_file() {
            return Err(io::Error::other(format!(
                "{} is not a file",
                from.display()
            )));
        }
        if file.uid() != own.uid() {
            lchown(&from, Some(own.uid()), Some(own.gid()))?;
        }
        fs::rename(&from, &to).map_err(|error| named(&to, &error))
    }
}
