//! The backups of a data directory that can be bases of incremental backups.
//!
//! The file `teak.backups` in the data directory has the ids of the last complete backups. An id in it proves that
//! the directory was in the state of that backup and has changed since only in ways that the epochs of the index files
//! note. So a backup of another directory, or of one that was restored since, is not accepted as a base. A restored
//! directory begins with an empty list.

use super::messages::Messages;
use parking_lot::Mutex;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use teak_base::StorageResult;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::{checksum, hash_key_128};
use teak_disk::{Disk, replace_file};
use teak_tree::BackupEpochs;

const FILE: &str = "teak.backups";
const TEMPORARY_FILE: &str = "teak.backups.new";
const MAGIC: &[u8; 8] = b"TEAKBACK";
const VERSION: u32 = 1;

/// How many of the last backups can be bases.
pub(crate) const BASES_MAX: usize = 64;

const FILE_BYTES_MAX: u64 = 4096;

/// Identifies a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(pub(crate) [u8; BackupId::BYTES]);

impl BackupId {
    pub(crate) const BYTES: usize = 16;
    pub(crate) const NONE: Self = Self([0; Self::BYTES]);

    /// An id that no other backup has: of the moment, the process and the state of the engine.
    pub(crate) fn new(parts: &[u64]) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut seed = now.map_or(0, |now| now.as_nanos()).to_le_bytes().to_vec();
        seed.put_u32(std::process::id());
        for part in parts {
            seed.put_u64(*part);
        }
        let (high, low) = hash_key_128(&seed);
        let mut id = [0; Self::BYTES];
        let bytes = high.to_be_bytes().into_iter().chain(low.to_be_bytes());
        for (slot, byte) in id.iter_mut().zip(bytes) {
            *slot = byte;
        }
        Self(id)
    }

    pub(crate) fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let bytes = take.take(Self::BYTES)?;
        Ok(Self(bytes.try_into().map_err(|_| Malformed)?))
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A complete backup: the number of its cut, and its id.
type Base = (u64, BackupId);

#[derive(Debug, Default)]
pub(crate) struct BackupHistory {
    epochs: Arc<BackupEpochs>,
    /// The last complete backups, oldest first.
    bases: Mutex<Vec<Base>>,
}

impl BackupHistory {
    pub(crate) fn epochs(&self) -> &Arc<BackupEpochs> {
        &self.epochs
    }

    /// Reads the file of a data directory that is being opened. If it is damaged, a new history begins: then
    /// no earlier backup can be a base.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn read(
        &self,
        disk: &Arc<dyn Disk>,
        directory: &Path,
        messages: &Messages,
    ) -> StorageResult<()> {
        let path = directory.join(FILE);
        if !disk.exists(&path)? {
            return Ok(());
        }
        let file = disk.open(&path)?;
        let length = file.len()?.min(FILE_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        match decode(&bytes) {
            Ok((epoch, bases)) => {
                self.epochs.set(epoch, oldest(&bases, epoch));
                *self.bases.lock() = bases;
            }
            Err(Malformed) => messages.warning(&format!(
                "{} is damaged: the next backup must be a full one",
                path.display()
            )),
        }
        Ok(())
    }

    /// The number of the cut of a backup; `None` if it cannot be a base.
    pub(crate) fn cut_of(&self, id: BackupId) -> Option<u64> {
        let bases = self.bases.lock();
        let found = bases.iter().find(|(_, other)| *other == id);
        found.map(|(cut, _)| *cut)
    }

    /// Adds a backup of which everything is copied; durable on return.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn add(
        &self,
        disk: &Arc<dyn Disk>,
        directory: &Path,
        base: Base,
    ) -> StorageResult<()> {
        let mut bases = self.bases.lock();
        let mut changed = bases.clone();
        changed.push(base);
        let excess = changed.len().saturating_sub(BASES_MAX);
        changed.drain(..excess);
        let epoch = self.epochs.current();
        write(disk, directory, epoch, &changed)?;
        self.epochs.set(epoch, oldest(&changed, epoch));
        *bases = changed;
        Ok(())
    }

    /// Writes the file of a copy of the data directory, which has no bases.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn write_empty(&self, disk: &Arc<dyn Disk>, directory: &Path) -> StorageResult<()> {
        write(disk, directory, self.epochs.current(), &[])
    }
}

/// The oldest cut that can be the base of an increment.
fn oldest(bases: &[Base], epoch: u64) -> u64 {
    bases.first().map_or(epoch, |(cut, _)| *cut)
}

fn write(disk: &Arc<dyn Disk>, directory: &Path, epoch: u64, bases: &[Base]) -> StorageResult<()> {
    let (temporary, path) = (directory.join(TEMPORARY_FILE), directory.join(FILE));
    replace_file(disk, &temporary, &path, &encode(epoch, bases))
}

fn encode(epoch: u64, bases: &[Base]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.put_u32(VERSION);
    out.put_u32(u32::try_from(bases.len()).unwrap_or(u32::MAX));
    out.put_u64(epoch);
    for (cut, id) in bases {
        out.put_u64(*cut);
        out.extend_from_slice(&id.0);
    }
    let sum = checksum(&out);
    out.put_u64(sum);
    out
}

fn decode(bytes: &[u8]) -> Result<(u64, Vec<Base>), Malformed> {
    let at = bytes.len().checked_sub(8).ok_or(Malformed)?;
    let (checked, sum) = bytes.split_at(at);
    let mut take = Take::new(checked);
    let is_known = take.take(MAGIC.len())? == MAGIC && take.u32()? == VERSION;
    if !is_known || Take::new(sum).u64()? != checksum(checked) {
        return Err(Malformed);
    }
    let count = take.u32()?;
    let epoch = take.u64()?;
    let mut bases = Vec::new();
    for _ in 0..count {
        let cut = take.u64()?;
        bases.push((cut, BackupId::take(&mut take)?));
    }
    let is_ordered = bases.is_sorted_by(|one, next| one.0 < next.0);
    let is_before = bases.last().is_none_or(|(cut, _)| *cut < epoch);
    match take.is_empty() && is_ordered && is_before && bases.len() <= BASES_MAX {
        true => Ok((epoch, bases)),
        false => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use teak_disk::MemoryDisk;

    #[test]
    fn the_last_backups_are_read_again() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let directory = Path::new("/data");
        let history = BackupHistory::default();
        let mut ids = Vec::new();
        for _ in 0..BASES_MAX + 3 {
            let cut = history.epochs.advance();
            let id = BackupId::new(&[cut]);
            history.add(&disk, directory, (cut, id)).unwrap();
            ids.push(id);
        }
        let again = BackupHistory::default();
        let messages = Messages::new(None);
        again.read(&disk, directory, &messages).unwrap();
        assert_eq!(again.epochs.current(), BASES_MAX as u64 + 3);
        assert_eq!(again.cut_of(ids[2]), None);
        assert_eq!(again.cut_of(ids[3]), Some(3));
        assert_eq!(again.cut_of(ids[BASES_MAX + 2]), Some(BASES_MAX as u64 + 2));
        // A copy continues the epochs, and has no bases.
        history.write_empty(&disk, directory).unwrap();
        let copy = BackupHistory::default();
        copy.read(&disk, directory, &messages).unwrap();
        assert_eq!(copy.epochs.current(), BASES_MAX as u64 + 3);
        assert_eq!(copy.cut_of(ids[3]), None);
    }

    #[test]
    fn the_example_is_written_and_read() {
        let page = include_str!("../../../../docs/design/format.md");
        let section = page.split("\n### Backups of a data directory").nth(1);
        let example = section.unwrap().split("```hex\n").nth(1).unwrap();
        let lines = example.split("```").next().unwrap().lines();
        let bytes: Vec<u8> = lines
            .flat_map(|line| line.split('|').next().unwrap().split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        let mut id = BackupId::NONE;
        for (byte, value) in id.0.iter_mut().zip(0x10..) {
            *byte = value;
        }
        let encoded = encode(4, &[(3, id)]);
        assert_eq!(encoded, bytes, "{encoded:02x?}");
        assert_eq!(decode(&bytes), Ok((4, vec![(3, id)])));
    }

    #[test]
    fn a_damaged_file_begins_a_new_history() {
        let bytes = encode(7, &[(3, BackupId::new(&[1]))]);
        assert!(decode(&bytes).is_ok());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), Err(Malformed), "{at}");
            assert!(decode(&bytes[..at]).is_err());
        }
        let later = encode(3, &[(3, BackupId::new(&[1]))]);
        assert_eq!(decode(&later), Err(Malformed), "a cut of the future");
    }
}
