//! Bytes on disk, bytes written, and the end of background writes.

use crate::stores::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const QUIET_SECONDS: u32 = 3;
const SETTLE_SECONDS_MAX: u32 = 3600;

/// Bytes that this process has written to disk so far.
pub fn bytes_written() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("no write_bytes in /proc/self/io")?.parse()?)
}

/// Bytes that the files of a directory allocate.
pub fn bytes_on_disk(directory: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(about) if about.is_dir() => bytes += bytes_on_disk(&entry.path())?,
            Ok(about) => bytes += about.blocks() * 512,
            // A background thread has removed the file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Waits until the process has written nothing for some seconds.
pub fn wait_until_quiet() -> Result<(), Failure> {
    let (mut last, mut quiet, mut waited) = (bytes_written()?, 0, 0);
    while quiet < QUIET_SECONDS {
        if waited == SETTLE_SECONDS_MAX {
            return Err(format!("background writes have not ended after {waited} s").into());
        }
        sleep(Duration::from_secs(1));
        waited += 1;
        let now = bytes_written()?;
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_all_files_below_a_directory_are_added() {
        let directory = std::env::temp_dir().join(format!("teak-rivals-{}", std::process::id()));
        fs::create_dir_all(directory.join("inner")).unwrap();
        fs::write(directory.join("one"), vec![1; 10_000]).unwrap();
        fs::write(directory.join("inner/two"), vec![1; 10_000]).unwrap();
        let bytes = bytes_on_disk(&directory).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert!((20_000..200_000).contains(&bytes), "{bytes}");
    }
}
