//! Fuzz target of lists of blocks of backups, which the server reads although others may have written them.

use crate::backup::{BACKUP_LIST_FILE, BackupList, fuzz_list_parts, fuzz_list_seed};
use std::path::Path;
use std::sync::Arc;
use teak_disk::{Disk, MemoryDisk};

/// Opens the bytes as a list, and decodes them as the parts of one, whose checksums would reject most changes.
pub(super) fn backup_list(bytes: &[u8]) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let path = Path::new("/backup").join(BACKUP_LIST_FILE);
    let file = disk.create(&path).expect("a new file");
    file.write_all_at(bytes, 0)
        .expect("a memory disk is not full");
    if let Ok(list) = BackupList::open(&disk, &path) {
        for listed in list.files() {
            let mut end = 0;
            for block in list.blocks(listed) {
                let Ok(block) = block else {
                    break;
                };
                assert!(block.address.offset >= end, "blocks are in order");
                end = block.address.end();
            }
        }
    }
    fuzz_list_parts(bytes);
}

pub(super) fn backup_list_seeds() -> Vec<Vec<u8>> {
    let (list, index, records) = fuzz_list_seed().expect("a memory disk is not full");
    vec![list, index, records]
}
