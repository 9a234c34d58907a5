"""Copies the crates of Cargo.lock into a directory for a build without network: `python3 -m scripts.deb.vendor DIRECTORY`.

Crates that the packages do not contain (for tests, and for other systems) are reduced to their Cargo.toml, which cargo
needs to read Cargo.lock. Nothing is done if Cargo.lock has not changed.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
# What the packages are built from: the arguments of `cargo tree`.
BUILT = (("-p", "teak-c-api", "--features", "allocator"), ("-p", "teak-tools"))


def compiled_crates():
    """Names and versions of the crates that are compiled for the packages, build scripts included."""
    crates = set()
    for arguments in BUILT:
        for target in TARGETS:
            listing = subprocess.run(["cargo", "tree", "--locked", *arguments, "--target", target, "--edges=normal,build",
                                      "--prefix=none", "--format={p}"], cwd=ROOT, check=True, capture_output=True, text=True)
            crates.update(tuple(line.split()[:2]) for line in listing.stdout.splitlines() if line.strip())
    return {f"{name}-{version.removeprefix('v')}" for name, version in crates}


def reduce(crate):
    """Removes all files of a crate except its manifest. Some manifests are valid only if there is a library."""
    for path in crate.iterdir():
        if path.name in ("Cargo.toml", ".cargo-checksum.json"):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    (crate / "src").mkdir()
    (crate / "src/lib.rs").write_text("// Not compiled for these packages.\n")


def drop_checksums(crate):
    """Without checksums of files, cargo accepts that files are missing."""
    checksums = crate / ".cargo-checksum.json"
    package = json.loads(checksums.read_text())["package"]
    checksums.write_text(json.dumps({"files": {}, "package": package}))


def main():
    directory = Path(sys.argv[1])
    state = hashlib.sha256((ROOT / "Cargo.lock").read_bytes() + Path(__file__).read_bytes()).hexdigest()
    stamp = directory.with_suffix(".stamp")
    if directory.is_dir() and stamp.exists() and stamp.read_text() == state:
        return
    print("-- copying the crates of Cargo.lock")
    shutil.rmtree(directory, ignore_errors=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", str(directory)], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    compiled = compiled_crates()
    for crate in directory.iterdir():
        drop_checksums(crate)
        # dh_clean removes files with this ending.
        (crate / "Cargo.toml.orig").unlink(missing_ok=True)
        if crate.name not in compiled:
            reduce(crate)
    stamp.write_text(state)


if __name__ == "__main__":
    main()
