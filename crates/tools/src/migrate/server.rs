//! The server whose tables are converted.

use super::arguments::Arguments;
use super::tables::{self, Table};
use super::throttle::Throttle;
use crate::sql_client::{Session, SqlClient};
use std::io;

/// Values are copied as they are, also those that the server would not accept any more, but never changed.
const SQL_MODE: &str =
    "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";

/// The lock that two runs cannot have at the same time.
const LOCK: &str = "teak_migrate";

pub(super) struct Server<'a> {
    client: &'a SqlClient,
    lock_wait: u32,
    throttle: Option<Throttle>,
    no_binlog: bool,
}

impl<'a> Server<'a> {
    /// # Errors
    /// Also if the server has no Teak, or none that can do what is asked of it.
    pub(super) fn connect(client: &'a SqlClient, arguments: &Arguments) -> io::Result<Self> {
        let server = Self {
            client,
            lock_wait: arguments.lock_wait,
            throttle: arguments.throttle,
            no_binlog: arguments.no_binlog,
        };
        let mut session = client.session()?;
        let engine = session.execute(
            "SELECT SUPPORT FROM INFORMATION_SCHEMA.ENGINES WHERE ENGINE = 'TEAK' AND SUPPORT IN ('YES', 'DEFAULT')",
        )?;
        match engine.is_empty() {
            true => Err(io::Error::other("the server has no engine TEAK")),
            false => Ok(server),
        }
    }

    /// A connection whose statements convert values exactly or fail.
    pub(super) fn session(&self) -> io::Result<Session> {
        let mut session = self.client.session()?;
        let lock_wait = self.lock_wait;
        session.execute(&format!(
            "SET SESSION sql_mode = '{SQL_MODE}', lock_wait_timeout = {lock_wait}, max_statement_time = 0, \
             system_versioning_alter_history = KEEP, alter_algorithm = 'DEFAULT'"
        ))?;
        Ok(session)
    }

    /// A connection that converts tables.
    pub(super) fn converting_session(&self) -> io::Result<Session> {
        let mut session = self.session()?;
        // Otherwise the rows of small tables would be logged, and remain in memory for a while.
        session.execute("SET SESSION teak_bulk_load_threshold = 0")?;
        if let Some(throttle) = self.throttle {
            session.execute(&throttle.statement())?;
        }
        if self.no_binlog {
            session.execute("SET SESSION sql_log_bin = OFF")?;
        }
        Ok(session)
    }

    /// Waits for the end of another run. The connection excludes others until its end.
    pub(super) fn exclude_others(&self, session: &mut Session) -> io::Result<()> {
        let locked = session.value(&format!("SELECT GET_LOCK('{LOCK}', {})", self.lock_wait))?;
        match locked.as_str() {
            "1" => Ok(()),
            _ => Err(io::Error::other("another `teak migrate` uses the server")),
        }
    }
}

/// The engine of a table now; `None` if it was dropped.
pub(super) fn engine_of(session: &mut Session, table: &Table) -> io::Result<Option<String>> {
    let rows = session.execute(&format!(
        "SELECT IFNULL(ENGINE, '') FROM INFORMATION_SCHEMA.TABLES WHERE {}",
        table.condition()
    ))?;
    Ok(rows
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().next()))
}

/// The size of a table of Teak.
pub(super) fn size_of(session: &mut Session, table: &Table) -> io::Result<u64> {
    tables::number(
        session,
        &format!(
            "SELECT IFNULL(SUM(DATA_LENGTH + INDEX_LENGTH), 0) FROM INFORMATION_SCHEMA.TABLES WHERE {}",
            table.condition()
        ),
    )
}

/// Bytes of the server's disk that are free.
pub(super) fn free_bytes(session: &mut Session) -> io::Result<Option<u64>> {
    let rows = session.execute("SHOW GLOBAL STATUS LIKE 'Teak_disk_bytes_free'")?;
    Ok(rows.first().and_then(|row| row.get(1)?.parse().ok()))
}
