//! Encrypted files.

use crate::common::{PAGE, PATH, checkpoint, create, open, read, write};
use std::path::Path;
use std::sync::Arc;
use teak_base::{Codec, Encryption, KeyId, StorageError};
use teak_block_file::{BLOCK_HEADER_BYTES, BlockAddress, BlockDescription, BlockFile, BlockKind};
use teak_disk::{Disk, MemoryDisk};
use teak_testing::TestKeys;

const PLANTED: &[u8] = b"a secret that must not be in the file";

fn disk() -> Arc<dyn Disk> {
    Arc::new(MemoryDisk::new())
}

fn bytes_of(disk: &Arc<dyn Disk>) -> Vec<u8> {
    let file = disk.open(Path::new(PATH)).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Writes a block of each codec.
fn write_all(file: &BlockFile) -> Vec<(BlockAddress, Vec<u8>)> {
    let mut blocks = Vec::new();
    for codec in Codec::ALL {
        let mut writer = file.writer(0);
        for number in 0..20u8 {
            let raw = [&[number], PLANTED].concat();
            let description = BlockDescription { codec, ..PAGE };
            blocks.push((writer.write(description, &raw).unwrap(), raw));
        }
        file.publish(vec![writer.finish().unwrap()], &[]);
    }
    blocks
}

#[test]
fn blocks_are_read_back_and_no_plain_bytes_are_in_the_file() {
    let (disk, keys) = (disk(), Arc::<TestKeys>::default());
    let file = create(&disk);
    file.set_encryption(keys.encryption(2));
    let blocks = write_all(&file);
    checkpoint(&file, b"state");
    drop(file);
    assert!(!contains(&bytes_of(&disk), &PLANTED[..8]));
    let (file, _) = open(&disk);
    // What is read names its key, so no key is set.
    file.set_encryption(Encryption {
        key: None,
        ..keys.encryption(2)
    });
    for (address, raw) in &blocks {
        assert_eq!(read(&file, *address), *raw);
    }
    // Now blocks are not encrypted.
    let plain = write(&file, PLANTED);
    assert!(contains(&bytes_of(&disk), PLANTED));
    assert_eq!(read(&file, plain), PLANTED);
}

#[test]
fn a_missing_or_wrong_key_is_an_error_of_its_own() {
    let (disk, keys) = (disk(), Arc::<TestKeys>::default());
    let file = create(&disk);
    file.set_encryption(keys.encryption(2));
    let address = write(&file, PLANTED);
    checkpoint(&file, b"state");
    let expect = |encryption: Encryption, text: &str| {
        let (file, _) = open(&disk);
        file.set_encryption(encryption);
        match file.read_block(address, BlockKind::Page) {
            Err(error @ StorageError::Key { .. }) => {
                let message = error.to_string();
                assert!(message.contains("key 2, version 1"), "{message}");
                assert!(message.contains(text), "{message}");
            }
            other => panic!("{other:?}"),
        }
    };
    expect(Encryption::default(), "no encryption plugin is loaded");
    expect(TestKeys::other().encryption(2), "it is another key");
    let lost = Arc::<TestKeys>::default();
    lost.set_lost(true);
    expect(lost.encryption(2), "the keys are lost");
    // A search for intact blocks does not silently pass over it.
    let (file, _) = open(&disk);
    let found = file.visit_intact(BlockKind::Page, &mut |_| (), &mut |_, _| Ok(()));
    assert!(
        matches!(found, Ok(Some(StorageError::Key { .. }))),
        "{found:?}"
    );
    // Nothing is written without a key, and the file remains usable.
    let (file, _) = open(&disk);
    file.set_encryption(lost.encryption(2));
    let refused = file.writer(0).write(PAGE, PLANTED);
    assert!(
        matches!(refused, Err(StorageError::Key { .. })),
        "{refused:?}"
    );
    lost.set_lost(false);
    assert_eq!(read(&file, address), PLANTED);
    write(&file, PLANTED);
}

#[test]
fn a_block_is_refused_at_another_place() {
    let (disk, keys) = (disk(), Arc::<TestKeys>::default());
    let file = create(&disk);
    file.set_encryption(keys.encryption(1));
    let (one, other) = (write(&file, PLANTED), write(&file, PLANTED));
    assert_eq!(one.bytes, other.bytes);
    // A copy of the encrypted bytes with a header of the other place, as an attacker would make it.
    let raw = disk.open(Path::new(PATH)).unwrap();
    let mut payload = vec![0; one.bytes as usize - BLOCK_HEADER_BYTES];
    let skip = BLOCK_HEADER_BYTES as u64;
    raw.read_exact_at(&mut payload, one.offset + skip).unwrap();
    let mut header = [0; BLOCK_HEADER_BYTES];
    raw.read_exact_at(&mut header, other.offset).unwrap();
    let (checked, sum) = header.split_at_mut(BLOCK_HEADER_BYTES - 8);
    let forged = teak_base::checksum::checksum_parts(&[checked, &payload]);
    sum.copy_from_slice(&forged.to_le_bytes());
    raw.write_all_at(&payload, other.offset + skip).unwrap();
    raw.write_all_at(&header, other.offset).unwrap();
    let found = file.read_block(other, BlockKind::Page);
    assert!(matches!(found, Err(StorageError::Key { .. })), "{found:?}");
    assert_eq!(read(&file, one), PLANTED);
}

#[test]
fn moved_blocks_are_encrypted_with_the_newest_key() {
    let (disk, keys) = (disk(), Arc::<TestKeys>::default());
    let file = create(&disk);
    let hole = write(&file, &[1; 6000]);
    file.set_encryption(keys.encryption(1));
    let encrypted = write(&file, PLANTED);
    file.set_encryption(Encryption::default());
    let plain = write(&file, b"not encrypted yet");
    checkpoint(&file, b"1");
    file.publish(Vec::new(), &[hole]);
    checkpoint(&file, b"2");
    checkpoint(&file, b"3");
    let key = KeyId::new(1).unwrap();
    keys.rotate(key);
    file.set_encryption(keys.encryption(1));
    let mut mover = file.mover(Some(encrypted.offset), 0);
    let moved = [encrypted, plain].map(|from| {
        let to = mover.copy(from, BlockKind::Page).unwrap().unwrap();
        assert!(to.offset < from.offset);
        to
    });
    file.publish(vec![mover.finish().unwrap()], &[encrypted, plain]);
    assert_eq!(read(&file, moved[0]), PLANTED);
    assert_eq!(read(&file, moved[1]), b"not encrypted yet");
    let bytes = bytes_of(&disk);
    for to in moved {
        let envelope = usize::try_from(to.offset).unwrap() + BLOCK_HEADER_BYTES;
        let found = teak_base::cipher::envelope_key(&bytes[envelope..]);
        assert_eq!(
            found.map(|found| (found.key, found.version)),
            Some((key, 2))
        );
    }
}

#[test]
fn the_key_of_all_blocks_is_durable_and_checksums_need_no_key() {
    let (disk, keys) = (disk(), Arc::<TestKeys>::default());
    let file = create(&disk);
    let encryption = keys.encryption(3);
    let current = encryption.current(Path::new(PATH)).unwrap();
    file.set_encryption(encryption);
    assert_eq!(file.encryption_state().with, None);
    assert!(file.begin_key_change(current));
    file.end_key_change();
    assert!(!file.begin_key_change(current));
    write_all(&file);
    let damaged = write(&file, &[9; 5000]);
    checkpoint(&file, b"state");
    drop(file);
    let (file, _) = open(&disk);
    assert_eq!(file.encryption_state().with, current);
    let pin = file.pin_checkpoint().unwrap();
    let mut bytes = 0;
    let blocks = pin.verify(&mut |more| bytes += more).unwrap();
    // And that of the space map.
    assert_eq!(blocks, 20 * Codec::ALL.len() as u64 + 2);
    assert!(bytes > 5000);
    let raw = disk.open(Path::new(PATH)).unwrap();
    raw.write_all_at(&[0xab], damaged.offset + 1000).unwrap();
    assert!(pin.verify(&mut |_| ()).unwrap_err().is_corrupt());
}

#[test]
fn blocks_of_an_earlier_writer_lead_to_another_change() {
    let (disk, keys) = (disk(), Arc::<TestKeys>::default());
    let file = create(&disk);
    let encryption = keys.encryption(1);
    let first = encryption.current(Path::new(PATH)).unwrap();
    file.set_encryption(encryption);
    assert!(file.begin_key_change(first));
    file.end_key_change();
    let early = |file: &BlockFile| {
        let mut writer = file.writer(0);
        writer.write(PAGE, PLANTED).unwrap();
        writer.finish().unwrap()
    };
    let (during, after) = (early(&file), early(&file));
    keys.rotate(KeyId::new(1).unwrap());
    file.set_encryption(keys.encryption(1));
    let second = file.encryption().current(Path::new(PATH)).unwrap();
    assert!(file.begin_key_change(second));
    let address = write(&file, PLANTED);
    assert_eq!(file.block_key(address).unwrap(), second);
    file.publish(vec![during], &[]);
    file.end_key_change();
    assert_eq!(file.encryption_state().with, first);
    assert!(file.begin_key_change(second));
    file.end_key_change();
    assert_eq!(file.encryption_state().with, second);
    assert!(!file.begin_key_change(second));
    file.publish(vec![after], &[]);
    // This is known after the file was opened again, too.
    checkpoint(&file, b"state");
    drop(file);
    let (file, _) = open(&disk);
    assert!(file.encryption_state().is_mixed);
    assert!(file.begin_key_change(second));
    file.end_key_change();
    assert!(!file.encryption_state().is_mixed);
    // Blocks that are not encrypted.
    file.set_encryption(Encryption::default());
    write(&file, PLANTED);
    assert!(file.begin_key_change(second));
}
