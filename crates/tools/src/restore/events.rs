//! The events of a file of the binary log, as far as the boundaries of transactions need them.
//!
//! The formats are those of `sql/log_event.h` in the server's source: a header of 19 bytes, the event, and a checksum
//! if the first event says so.

use super::target::{Gtid, LogName};
use crate::paths::named;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use teak_base::bytes::{Malformed, Take};

const MAGIC: [u8; 4] = *b"\xfebin";
pub(super) const FIRST_EVENT: u64 = 4;
const HEADER_BYTES: usize = 19;
const CHECKSUM_BYTES: usize = 4;

/// A statement that ends a transaction is shorter.
const STATEMENT_BYTES_MAX: u64 = 4096;

// Types of events.
const QUERY: u8 = 2;
const STOP: u8 = 3;
const ROTATE: u8 = 4;
const FORMAT: u8 = 15;
const XID: u8 = 16;
const EXECUTE_LOAD: u8 = 18;
const XA_PREPARE: u8 = 38;
const BINLOG_CHECKPOINT: u8 = 161;
const GTID: u8 = 162;
const GTID_LIST: u8 = 163;
const START_ENCRYPTION: u8 = 164;
const COMPRESSED_QUERY: u8 = 165;

/// The group of events consists of one statement, without COMMIT.
const FLAG_STANDALONE: u8 = 1;

/// The bits of a GTID list's count that are the count.
const COUNT_MASK: u32 = (1 << 28) - 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first event of a file.
    Format,
    /// The last transactions of each domain and server before the file. The newest of a domain is its last one.
    GtidList(Vec<Gtid>),
    /// A transaction begins.
    Begin { gtid: Gtid, is_standalone: bool },
    /// Part of a transaction that consists of one statement.
    Statement,
    /// The end of a transaction.
    End,
    /// Another part of a transaction.
    Part,
    /// The file ends; the next one has this name.
    Rotate(LogName),
    /// An event between transactions.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub start: u64,
    pub end: u64,
    /// Seconds since 1970.
    pub time: u64,
    pub server: u32,
    pub kind: Kind,
}

pub(super) struct Events {
    path: PathBuf,
    input: BufReader<File>,
    offset: u64,
    length: u64,
    checksum_bytes: usize,
}

impl Events {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let named = |error: io::Error| named(path, &error);
        let file = File::open(path).map_err(named)?;
        let length = file.metadata().map_err(named)?.len();
        let mut input = BufReader::with_capacity(1 << 16, file);
        let mut magic = [0; 4];
        let is_log = input.read_exact(&mut magic).is_ok() && magic == MAGIC;
        if !is_log {
            let text = format!("{} is not a file of a binary log", path.display());
            return Err(io::Error::other(text));
        }
        Ok(Self {
            path: path.to_path_buf(),
            input,
            offset: FIRST_EVENT,
            length,
            checksum_bytes: 0,
        })
    }

    /// The position of the next event.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn damaged(&self) -> io::Error {
        io::Error::other(format!(
            "{} is damaged at byte {}",
            self.path.display(),
            self.offset
        ))
    }

    /// The next event; none at the end of the file. The last event is ignored if it is incomplete, because it is being
    /// written or the server crashed.
    pub(super) fn next(&mut self) -> io::Result<Option<Event>> {
        let left = self.length - self.offset;
        if left < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        self.input
            .read_exact(&mut header)
            .map_err(|error| named(&self.path, &error))?;
        let (time, kind, server, bytes) = header_of(&header).map_err(|Malformed| self.damaged())?;
        let Some(body) = bytes.checked_sub(HEADER_BYTES as u64) else {
            return Err(self.damaged());
        };
        if bytes > left {
            return Ok(None);
        }
        let kind = self.kind(kind, body)?;
        let start = self.offset;
        self.offset += bytes;
        Ok(Some(Event {
            start,
            end: self.offset,
            time,
            server,
            kind,
        }))
    }

    /// Reads or skips what follows the header.
    fn kind(&mut self, kind: u8, body: u64) -> io::Result<Kind> {
        match kind {
            FORMAT | GTID | GTID_LIST | ROTATE => {}
            QUERY if body <= STATEMENT_BYTES_MAX => {}
            START_ENCRYPTION => {
                return Err(io::Error::other(format!(
                    "{} is encrypted: mariadb-binlog can read it only from a running server",
                    self.path.display()
                )));
            }
            _ => {
                self.skip(body)?;
                return Ok(match kind {
                    XID | XA_PREPARE => Kind::End,
                    QUERY | COMPRESSED_QUERY | EXECUTE_LOAD => Kind::Statement,
                    STOP | BINLOG_CHECKPOINT => Kind::Other,
                    _ => Kind::Part,
                });
            }
        }
        let length = usize::try_from(body).map_err(|_| self.damaged())?;
        let mut bytes = vec![0; length];
        self.input
            .read_exact(&mut bytes)
            .map_err(|error| named(&self.path, &error))?;
        if kind == FORMAT {
            // The checksum's algorithm, and this event's own checksum.
            let algorithm = bytes.iter().rev().nth(CHECKSUM_BYTES).copied();
            let has_checksums = algorithm.ok_or_else(|| self.damaged())? == 1;
            self.checksum_bytes = if has_checksums { CHECKSUM_BYTES } else { 0 };
            return Ok(Kind::Format);
        }
        let length = bytes.len().checked_sub(self.checksum_bytes);
        let bytes = length.and_then(|length| bytes.get(..length));
        let bytes = bytes.ok_or_else(|| self.damaged())?;
        let decoded = match kind {
            GTID => gtid_event(bytes),
            GTID_LIST => gtid_list(bytes),
            ROTATE => rotate(bytes),
            _ => query(bytes),
        };
        decoded.map_err(|Malformed| self.damaged())
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let buffered = self.input.buffer().len();
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= buffered => self.input.consume(bytes),
            _ => {
                let to = self.offset + HEADER_BYTES as u64 + bytes;
                self.input
                    .seek(SeekFrom::Start(to))
                    .map_err(|error| named(&self.path, &error))?;
            }
        }
        Ok(())
    }
}

/// The time, type, server and length.
fn header_of(bytes: &[u8]) -> Result<(u64, u8, u32, u64), Malformed> {
    let mut take = Take::new(bytes);
    let (time, kind) = (take.u32()?, take.u8()?);
    let (server, length) = (take.u32()?, take.u32()?);
    Ok((u64::from(time), kind, server, u64::from(length)))
}

fn gtid_event(bytes: &[u8]) -> Result<Kind, Malformed> {
    let mut take = Take::new(bytes);
    let (sequence, domain, flags) = (take.u64()?, take.u32()?, take.u8()?);
    Ok(Kind::Begin {
        // The server is in the header.
        gtid: Gtid {
            domain,
            server: 0,
            sequence,
        },
        is_standalone: flags & FLAG_STANDALONE != 0,
    })
}

fn gtid_list(bytes: &[u8]) -> Result<Kind, Malformed> {
    let mut take = Take::new(bytes);
    let count = take.u32()? & COUNT_MASK;
    let mut list = Vec::new();
    for _ in 0..count {
        let (domain, server, sequence) = (take.u32()?, take.u32()?, take.u64()?);
        list.push(Gtid {
            domain,
            server,
            sequence,
        });
    }
    Ok(Kind::GtidList(list))
}

fn rotate(bytes: &[u8]) -> Result<Kind, Malformed> {
    let mut take = Take::new(bytes);
    take.u64()?;
    let name = std::str::from_utf8(take.rest()).map_err(|_| Malformed)?;
    name.parse().map(Kind::Rotate).map_err(|()| Malformed)
}

fn query(bytes: &[u8]) -> Result<Kind, Malformed> {
    let mut take = Take::new(bytes);
    let _thread_and_seconds = take.u64()?;
    let database = usize::from(take.u8()?);
    let _error = take.u16()?;
    let variables = usize::from(take.u16()?);
    // A zero follows the database.
    take.take(variables + database + 1)?;
    let text = take.rest();
    // ROLLBACK TO a savepoint does not end a transaction.
    let ends = text == b"COMMIT" || text == b"ROLLBACK" || text.starts_with(b"XA ");
    Ok(if ends { Kind::End } else { Kind::Statement })
}
