"""A release of the server whose packages are in the archive's pool, although the archive lists a newer one.

The plugin must be compiled for exactly the release of the server, so the packages of a release are of no use without its source
package. An archive may list a release whose source it does not give. Then an older one is taken: RELEASES has its files with their
checksums. They are downloaded from the pool, and the system gets them as a local archive.
"""

import hashlib
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

RELEASES = Path(__file__).parent / "releases"  # SERIES.sha256: checksums and names of files in the pool
POOL = "pool/main/m/mariadb"
LOCAL = "srv/mariadb"


def source_is_available(root):
    """Whether the archive gives the source package of the newest server that it lists."""
    root.must("apt-cache", "madison", "mariadb-server")
    newest = root.output.split("|")[1].strip()
    return root.run("sh", "-c", f"cd /tmp && apt-get source -q --download-only --dsc-only mariadb={newest}")


def download(url, path, checksum):
    """Leaves the file at `path` with the content of this checksum."""
    if not path.exists():
        print(f"-- downloading {path.name}", flush=True)
        partial = path.with_name(path.name + ".new")
        with urllib.request.urlopen(url) as answer, partial.open("wb") as file:
            shutil.copyfileobj(answer, file)
        partial.rename(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
        sys.exit(f"error: {path} has not the checksum of {RELEASES}")


def add_local_archive(root, series):
    """Downloads the files of the release in RELEASES, and makes them an archive of the system."""
    directory = root.path(LOCAL)
    directory.mkdir(parents=True, exist_ok=True)
    for line in (RELEASES / f"{series}.sha256").read_text().splitlines():
        checksum, name = line.split()
        download(f"{root.archive.rstrip('/')}/{POOL}/{name}", directory / name, checksum)
    for command, index in ((["dpkg-scanpackages", "-m", "."], "Packages"), (["dpkg-scansources", "."], "Sources")):
        with (directory / index).open("w") as listing, root.log.open("a") as log:
            subprocess.run(command, cwd=directory, check=True, stdout=listing, stderr=log)
    root.write("etc/apt/sources.list.d/pool.list", f"deb [trusted=yes] file:/{LOCAL} ./\ndeb-src [trusted=yes] file:/{LOCAL} ./\n")
    root.must("apt-get", "update")
