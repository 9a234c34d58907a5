//! Copies a directory, at a limited rate. Blocks of zeros are not written, because the files of backups have holes.

use crate::paths::named;
use crate::progress::{Progress, Unit};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const BUFFER_BYTES: usize = 1 << 20;

/// A run of zeros of this size is not written.
const HOLE_BYTES: usize = 4096;

/// Limits the rate at which bytes are written.
pub(super) struct Pace {
    bytes_per_second: u64,
    begun: Instant,
}

impl Pace {
    /// `throttle`: MiB per second; 0: no limit.
    pub(super) fn new(throttle: u32) -> Self {
        Self {
            bytes_per_second: u64::from(throttle) << 20,
            begun: Instant::now(),
        }
    }

    /// Waits until `bytes` may have been written since the beginning.
    pub(super) fn wait(&self, bytes: u64) {
        if self.bytes_per_second > 0 {
            let due = u128::from(bytes) * 1000 / u128::from(self.bytes_per_second);
            let due = Duration::from_millis(u64::try_from(due).unwrap_or(u64::MAX));
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }
}

pub(super) struct Copy {
    skips: fn(&str) -> bool,
    pace: Pace,
    progress: Progress,
    bytes: u64,
}

impl Copy {
    /// `throttle`: MiB per second; 0: no limit.
    pub(super) fn new(from: &Path, throttle: u32) -> Self {
        Self {
            pace: Pace::new(throttle),
            skips: |_| false,
            progress: Progress::new(from.display().to_string(), Unit::Bytes, 0),
            bytes: 0,
        }
    }

    /// Copies one file; returns the bytes that were written.
    pub(super) fn one(from: &Path, to: &Path) -> io::Result<u64> {
        let mut copy = Self::new(from, 0);
        copy.file(from, to)?;
        Ok(copy.bytes)
    }

    /// Leaves out the files for whose names `skips` returns true.
    pub(super) fn without(mut self, skips: fn(&str) -> bool) -> Self {
        self.skips = skips;
        self
    }

    /// Copies a directory with all that it contains; returns the bytes that were written.
    pub(super) fn run(mut self, from: &Path, to: &Path) -> io::Result<u64> {
        self.directory(from, to)?;
        Ok(self.bytes)
    }

    fn directory(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to).map_err(|error| named(to, &error))?;
        for entry in fs::read_dir(from).map_err(|error| named(from, &error))? {
            let entry = entry?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.directory(&source, &target)?;
            } else if kind.is_file() && entry.file_name().to_str().is_some_and(self.skips) {
                // The caller does not need it.
            } else if kind.is_file() {
                self.file(&source, &target)
                    .map_err(|error| named(&target, &error))?;
            } else {
                let text = format!("{} is neither a file nor a directory", source.display());
                return Err(io::Error::other(text));
            }
        }
        File::open(to)?.sync_all()
    }

    fn file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut input = File::open(from)?;
        let mut output = File::create_new(to)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut length = 0;
        loop {
            let read = input.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            length += bytes.len() as u64;
            for piece in bytes.chunks(HOLE_BYTES) {
                if piece.iter().all(|byte| *byte == 0) {
                    let hole = i64::try_from(piece.len()).map_err(io::Error::other)?;
                    output.seek(SeekFrom::Current(hole))?;
                } else {
                    output.write_all(piece)?;
                    self.bytes += piece.len() as u64;
                }
            }
            self.progress.at(self.bytes);
            self.pace.wait(self.bytes);
        }
        // The file may end with a hole.
        output.set_len(length)?;
        output.set_permissions(input.metadata()?.permissions())?;
        output.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_copy_has_the_same_bytes_and_holes() {
        let base = std::env::temp_dir().join(format!("teak-copy-{}", std::process::id()));
        let (from, to) = (base.join("from"), base.join("to"));
        fs::create_dir_all(from.join("db/empty")).unwrap();
        let mut bytes = vec![0; 3 << 20];
        bytes[1 << 20] = 7;
        bytes.extend(b"end");
        fs::write(from.join("db/file"), &bytes).unwrap();
        fs::write(from.join("zeros"), vec![0; 100_000]).unwrap();
        fs::write(from.join("none"), "").unwrap();
        let written = Copy::new(&from, 0).run(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("db/file")).unwrap(), bytes);
        assert_eq!(fs::read(to.join("zeros")).unwrap(), vec![0; 100_000]);
        assert_eq!(fs::metadata(to.join("none")).unwrap().len(), 0);
        assert!(to.join("db/empty").is_dir());
        assert_eq!(written, 4096 + 3);
        let blocks = fs::metadata(to.join("db/file")).unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "{blocks}");
        // Not over files that exist.
        assert!(Copy::new(&from, 0).run(&from, &to).is_err());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn the_rate_is_limited() {
        let pace = Pace {
            bytes_per_second: 1 << 20,
            begun: Instant::now(),
        };
        pace.wait(100 << 10);
        assert!(pace.begun.elapsed() >= Duration::from_millis(90));
    }
}
