//! Spill files of a sort: sorted entries that do not fit in memory. Dropping a [`Spill`] removes its
//! file. If that fails, or after a crash, the owner of the directory removes it, which recognises it
//! by its prefix. In a directory that others use, too, files have no names.
//!
//! A file is a sequence of blocks: the stored and the raw length of the payload (u32 each), its
//! codec (u8), a checksum (u64), and the payload, which contains whole entries. If the table is encrypted, so is
//! the payload (see `teak_base::cipher`); the associated data are the lengths, the codec and the offset of the block.

use crate::entries::{EntryReader, put_entry};
use crate::key_range::Sample;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::checksum::checksum_parts;
use teak_base::cipher::ENVELOPE_BYTES;
use teak_base::{Codec, Encryption, KeyVersion, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile, pay_for_io};

/// Approximate raw size of a block, in bytes.
const BLOCK_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = 17;

/// Maximum number of sampled keys of one file.
const SAMPLES_MAX: usize = 512;

/// Memory of a reader other than that of a block.
const READ_EXTRA_BYTES: usize = 4 * 1024;

/// Where the sorts of one owner create their spill files.
#[derive(Clone, Debug)]
pub struct SpillDirectory {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directory.
    pub path: PathBuf,
    /// A file's name is this prefix and a number, unless the name exists.
    pub file_prefix: &'static str,
    /// Whether names are removed when their files are created, so that a crash leaves no file. If not,
    /// the owner removes files that a crash has left.
    pub without_names: bool,
    /// How the files are encrypted.
    pub encryption: Encryption,
    /// The number of the next spill file.
    pub next: Arc<AtomicU64>,
}

/// A spill file, removed when dropped.
#[derive(Debug)]
pub(crate) struct Spill {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    /// Whether the name exists.
    has_name: bool,
    bytes: u64,
    /// The largest raw block.
    raw_bytes_max: usize,
    samples: BlockSamples,
    encryption: Encryption,
    /// The key of all blocks.
    key: Option<KeyVersion>,
}

/// The first keys of blocks, with the offsets of the blocks and the raw bytes before them. If there are
/// many blocks, of every second, fourth, ... one.
#[derive(Debug, Default)]
struct BlockSamples {
    samples: Vec<(Sample, u64)>,
    /// Blocks between two samples, less one.
    skipped: u32,
    until_next: u32,
}

impl BlockSamples {
    /// Notes a block with so many raw bytes.
    fn note(&mut self, first_key: &[u8], offset: u64, raw_bytes: usize) {
        let raw_bytes = raw_bytes as u64;
        if let Some(until_next) = self.until_next.checked_sub(1) {
            self.until_next = until_next;
            if let Some((sample, _)) = self.samples.last_mut() {
                sample.bytes += raw_bytes;
            }
            return;
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.thin();
        }
        self.samples
            .push((Sample::new(first_key, raw_bytes), offset));
        self.until_next = self.skipped;
    }

    /// Removes every second sample.
    fn thin(&mut self) {
        let mut kept: Vec<(Sample, u64)> = Vec::with_capacity(SAMPLES_MAX);
        for (number, sample) in std::mem::take(&mut self.samples).into_iter().enumerate() {
            match kept.last_mut() {
                Some((last, _)) if number % 2 == 1 => last.bytes += sample.0.bytes,
                _ => kept.push(sample),
            }
        }
        self.samples = kept;
        self.skipped = self.skipped * 2 + 1;
    }
}

impl Spill {
    /// First keys, and the raw bytes from each to the next one.
    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample> {
        self.samples
            .samples
            .iter()
            .map(|(sample, _)| sample.clone())
    }

    /// Memory for reading it once, in bytes.
    pub(crate) fn read_bytes(&self) -> usize {
        self.raw_bytes_max + READ_EXTRA_BYTES
    }

    /// Where a block begins before which all keys are less than this one. Such a key has not more
    /// bytes than a sample.
    fn offset_before(&self, key: &[u8]) -> u64 {
        let samples = &self.samples.samples;
        let is_less = |(sample, _): &(Sample, u64)| sample.key.as_slice() < key;
        let position = samples.partition_point(is_less).checked_sub(1);
        let found = position.and_then(|position| samples.get(position));
        found.map_or(0, |(_, offset)| *offset)
    }

    /// The associated data of the block at `offset`.
    fn associated(lengths: &[u8], offset: u64) -> Vec<u8> {
        let mut associated = lengths.to_vec();
        associated.put_u64(offset);
        associated
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if self.has_name {
            // The owner of the directory removes a file that remains.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Writes sorted entries.
pub(crate) struct SpillWriter {
    spill: Spill,
    block: Vec<u8>,
    out: Vec<u8>,
    payload: Vec<u8>,
}

impl SpillWriter {
    pub(crate) fn create(directory: &SpillDirectory) -> StorageResult<Self> {
        let disk = Arc::clone(&directory.disk);
        let (file, path) = loop {
            let number = directory.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}{number}", directory.file_prefix);
            let path = directory.path.join(name);
            match disk.create(&path) {
                // Another process that uses the directory has the name for a moment.
                Err(StorageError::AlreadyExists { .. }) if directory.without_names => {}
                file => break (file?, path),
            }
        };
        if directory.without_names {
            disk.remove(&path)?;
        }
        Ok(Self {
            spill: Spill {
                disk,
                file,
                path,
                has_name: !directory.without_names,
                bytes: 0,
                raw_bytes_max: 0,
                samples: BlockSamples::default(),
                key: directory.encryption.current(&directory.path)?,
                encryption: directory.encryption.clone(),
            },
            block: Vec::with_capacity(BLOCK_BYTES),
            out: Vec::new(),
            payload: Vec::new(),
        })
    }

    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> StorageResult<()> {
        put_entry(&mut self.block, key, value);
        if self.block.len() >= BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(())
    }

    fn write_block(&mut self) -> StorageResult<()> {
        self.payload.clear();
        let envelope = self.spill.key.map_or(0, |_| ENVELOPE_BYTES);
        self.payload.resize(envelope, 0);
        let codec = Codec::Lz4.compress(&self.block, &mut self.payload);
        let payload = &mut self.payload;
        self.out.clear();
        self.out
            .put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
        self.out
            .put_u32(u32::try_from(self.block.len()).unwrap_or(u32::MAX));
        self.out.put_u8(codec.number());
        if let Some(key) = self.spill.key {
            let associated = Spill::associated(&self.out, self.spill.bytes);
            let encryption = &self.spill.encryption;
            encryption.seal(&self.spill.path, key, &associated, payload)?;
        }
        let sum = checksum_parts(&[&self.out, payload]);
        self.out.put_u64(sum);
        self.out.extend_from_slice(payload);
        self.spill.file.write_all_at(&self.out, self.spill.bytes)?;
        let first_key = Take::new(&self.block).bytes().unwrap_or_default();
        let (offset, raw_bytes) = (self.spill.bytes, self.block.len());
        self.spill.samples.note(first_key, offset, raw_bytes);
        self.spill.raw_bytes_max = self.spill.raw_bytes_max.max(raw_bytes);
        self.spill.bytes += self.out.len() as u64;
        self.block.clear();
        pay_for_io();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> StorageResult<Spill> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        Ok(self.spill)
    }
}

/// Reads a spill file. Keeps one block in memory.
#[derive(Debug)]
pub(crate) struct SpillReader {
    spill: Arc<Spill>,
    next_block: u64,
    block: EntryReader,
}

impl SpillReader {
    /// A reader before the first entry.
    pub(crate) fn new(spill: Arc<Spill>) -> Self {
        Self {
            spill,
            next_block: 0,
            block: EntryReader::default(),
        }
    }

    /// Begins at a block before which all keys are less than this one, which has not more bytes than a
    /// sample.
    pub(crate) fn skip_before(&mut self, key: &[u8]) {
        self.next_block = self.spill.offset_before(key);
    }

    /// The current entry. `None` before the first `advance`, and at the end.
    #[inline]
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.block.entry()
    }

    /// Moves to the next entry. Returns whether there is one.
    #[inline]
    pub(crate) fn advance(&mut self) -> StorageResult<bool> {
        loop {
            match self.block.advance() {
                Ok(true) => return Ok(true),
                Ok(false) if !self.read_block()? => return Ok(false),
                Ok(false) => {}
                Err(Malformed) => return Err(self.corrupt("an entry is malformed")),
            }
        }
    }

    fn read_block(&mut self) -> StorageResult<bool> {
        if self.next_block >= self.spill.bytes {
            return Ok(false);
        }
        let left = self.spill.bytes - self.next_block;
        let Some(left) = left.checked_sub(HEADER_BYTES as u64) else {
            return Err(self.corrupt("a block is longer than the file"));
        };
        let mut header = [0; HEADER_BYTES];
        self.spill
            .file
            .read_exact_at(&mut header, self.next_block)?;
        let mut take = Take::new(&header);
        let mut fields = || Ok::<_, Malformed>((take.u32()?, take.u32()?, take.u8()?, take.u64()?));
        let Ok((stored, raw, codec, sum)) = fields() else {
            return Err(self.corrupt("a block header is malformed"));
        };
        if u64::from(stored) > left {
            return Err(self.corrupt("a block is longer than the file"));
        }
        pay_for_io();
        let mut payload = vec![0; stored as usize];
        let start = self.next_block + HEADER_BYTES as u64;
        let file = &self.spill.file;
        file.read_exact_at(&mut payload, start)?;
        let summed = header.get(..9).unwrap_or_default();
        if checksum_parts(&[summed, &payload]) != sum {
            return Err(self.corrupt("a block has a wrong checksum"));
        }
        let packed: &[u8] = match self.spill.key {
            Some(_) => {
                let associated = Spill::associated(summed, self.next_block);
                let place = (self.spill.path.as_path(), self.next_block);
                let encryption = &self.spill.encryption;
                encryption.unseal(place, &associated, &mut payload)?
            }
            None => &payload,
        };
        let codec = Codec::from_number(codec);
        let block = codec.and_then(|codec| codec.decompress(packed, raw as usize).ok());
        let block = block.ok_or_else(|| self.corrupt("a block does not decompress"))?;
        self.block = EntryReader::new(block);
        self.next_block = start + u64::from(stored);
        Ok(true)
    }

    fn corrupt(&self, reason: &str) -> StorageError {
        StorageError::corrupt(&self.spill.path, self.next_block, reason)
    }
}
