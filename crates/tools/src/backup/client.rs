//! The statements of a backup for the server.

use crate::sql_client::{SqlClient, quoted};
use std::io;
use std::path::{Path, PathBuf};

/// The columns of INFORMATION_SCHEMA.TEAK_BACKUPS, in the order of [`State`].
const COLUMNS: &str = "STATE, STAGES, IFNULL(LSN, 0), IFNULL(CUT_MICROSECONDS, 0), FILES, BYTES_COPIED, IFNULL(ERROR, '')";

/// The state of the server's backup.
#[derive(Debug)]
pub(super) struct State {
    pub word: String,
    pub stages: u64,
    pub position: u64,
    pub cut_microseconds: u64,
    pub files: u64,
    pub bytes_copied: u64,
    pub error: String,
}

pub(super) struct Client(pub SqlClient);

impl Client {
    /// The server's data directory.
    ///
    /// # Errors
    /// Also if the server has no Teak with hot backups.
    pub(super) fn data_directory(&self) -> io::Result<PathBuf> {
        let rows = self.0.execute(
            "SELECT @@datadir FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = 'TEAK_BACKUPS'",
        )?;
        let value = rows.first().and_then(|row| row.first());
        let value =
            value.ok_or_else(|| io::Error::other("the server has no Teak with hot backups"))?;
        Ok(PathBuf::from(value))
    }

    /// Arms the backup, or extends the time for which it is armed.
    pub(super) fn arm(&self, directory: &Path, throttle: u32) -> io::Result<()> {
        let directory = directory
            .to_str()
            .ok_or_else(|| io::Error::other("the target is not valid UTF-8"))?;
        let directory = quoted(directory);
        self.0.execute(&format!(
            "SET GLOBAL teak_backup_throttle = {throttle}; SET GLOBAL teak_backup_target = {directory}"
        ))?;
        Ok(())
    }

    pub(super) fn cancel(&self) -> io::Result<()> {
        self.0.execute("SET GLOBAL teak_backup_target = ''")?;
        Ok(())
    }

    /// Blocks commits for a moment, as mariadb-backup does.
    pub(super) fn block_commits(&self) -> io::Result<()> {
        self.0
            .execute("BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT; BACKUP STAGE END")?;
        Ok(())
    }

    pub(super) fn state(&self) -> io::Result<State> {
        let rows = self.0.execute(&format!(
            "SELECT {COLUMNS} FROM INFORMATION_SCHEMA.TEAK_BACKUPS"
        ))?;
        let row = rows
            .first()
            .ok_or_else(|| io::Error::other("the server was restarted: it has no backup"))?;
        let text = |at: usize| row.get(at).cloned().unwrap_or_default();
        let number = |at: usize| text(at).parse().unwrap_or(0);
        Ok(State {
            word: text(0),
            stages: number(1),
            position: number(2),
            cut_microseconds: number(3),
            files: number(4),
            bytes_copied: number(5),
            error: text(6),
        })
    }
}
