//! Writes the seeds of each target to a subdirectory of the given directory.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1);
    let directory = directory.ok_or_else(|| std::io::Error::other("name a directory"))?;
    for target in teak_fuzz::targets() {
        let corpus = Path::new(&directory).join(target.name);
        std::fs::create_dir_all(&corpus)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(corpus.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
