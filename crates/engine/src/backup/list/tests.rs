//! The example of a list in `docs/design/format.md`.

use super::*;
use teak_disk::MemoryDisk;

const DIRECTORY: &str = "/backup";

/// The bytes of the example under a heading of `docs/design/format.md`.
fn documented(heading: &str) -> Vec<u8> {
    let page = include_str!("../../../../../docs/design/format.md");
    let section = page.split(heading).nth(1).unwrap();
    let example = section.split("```hex\n").nth(1).unwrap();
    let lines = example.split("```").next().unwrap().lines();
    lines
        .flat_map(|line| line.split('|').next().unwrap().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn id(first: u8) -> BackupId {
    let mut id = BackupId::NONE;
    for (byte, value) in id.0.iter_mut().zip(first..) {
        *byte = value;
    }
    id
}

/// Two blocks, and a hole of a unit between them: the increment has the first one.
fn records() -> Vec<BlockRecord> {
    let mut bytes = Vec::new();
    for (word, length, checksum) in [(1, 100, 9), (2, 40, 10)] {
        bytes.put_varint(word);
        bytes.put_varint(length);
        bytes.put_u64(checksum);
    }
    let mut take = Take::new(&bytes);
    let mut end = EMPTY_FILE_BYTES;
    let decode = |_| BlockRecord::decode(&mut end, &mut take).unwrap();
    (0..2).map(decode).collect()
}

fn identity() -> BackupIdentity {
    BackupIdentity {
        id: id(0x10),
        base: Some((id(0x30), 5)),
        instance: 7,
        cut: 3,
        position: Lsn(400),
    }
}

#[test]
fn the_example_is_written_and_read() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let list = ListWriter::create(&disk, Path::new(DIRECTORY), identity()).unwrap();
    let mut writer = list.begin(ListedFile::new(FileId(2), 6, Path::new("db/t.teak")));
    for record in records() {
        writer.add(record).unwrap();
    }
    writer.finish(8).unwrap();
    let length = list.finish().unwrap();
    let path = Path::new(DIRECTORY).join(BACKUP_LIST_FILE);
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    disk.open(&path)
        .unwrap()
        .read_exact_at(&mut bytes, 0)
        .unwrap();
    assert_eq!(bytes, documented("\n### List of blocks"), "{bytes:02x?}");
    let read = BackupList::open(&disk, &path).unwrap();
    assert_eq!(read.identity(), &identity());
    let listed = read.find(FileId(2)).unwrap();
    assert_eq!(
        (listed.blocks, listed.block_bytes, listed.changed_bytes),
        (2, 256, 128)
    );
    let blocks: Vec<BlockRecord> = read.blocks(listed).map(Result::unwrap).collect();
    assert_eq!(blocks, records());
}
