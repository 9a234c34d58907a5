#!/usr/bin/env python3
"""Checks of the repository that no compiler makes. Prints one line per fault; the exit status says whether there is one.

- A source file has at most 800 lines; a Rust file opens with what it is (`//!`), a plugin file with its licence.
- No file names a place that is only on this machine: the directory above the checkout, the home directory, the machine,
  or an archive, index or registry that apt, pip or cargo is configured to use here.
- No whitespace at line ends, no tabs in Rust, C++ and Python, no debugging left behind.
"""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 800
SOURCES = {".rs", ".cc", ".h", ".py", ".sh", ".c"}
# Generated files are as long as they come out.
GENERATED = {"Cargo.lock", "crates/c_api/include/teak.h"}
PUBLIC_HOSTS = {"github.com", "crates.io", "docs.rs", "localhost", "127.0.0.1", "static.crates.io", "pypi.org"}
LEFT_BEHIND = re.compile(r"\bdbg!\(|\btodo!\(|\bunimplemented!\(|\bFIXME\b|\bXXX\b")


def tracked_files():
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             check=True, capture_output=True)
    return sorted(name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file())


def hosts_of(text):
    return set(re.findall(r"https?://(?:[^/@\s]*@)?([A-Za-z0-9.-]+)", text))


def local_names():
    """What must stand in no file: strings, each with what it is."""
    names = {}
    above = ROOT.parent
    if len(above.parts) > 1 and str(above) != "/tmp":
        names[str(above) + "/"] = "a path of this machine"
    home = os.path.expanduser("~")
    if len(Path(home).parts) > 2:
        names[home + "/"] = "a home directory"
    host = socket.gethostname()
    if len(host) > 4 and host not in ("debian", "localhost"):
        names[host] = "this machine's name"
    configuration = ["/etc/apt/sources.list", *map(str, Path("/etc/apt").glob("sources.list.d/*")),
                     *map(str, Path("/etc/apt").glob("apt.conf.d/*")), "/etc/pip.conf", home + "/.pip/pip.conf",
                     home + "/.config/pip/pip.conf", home + "/.cargo/config.toml", home + "/.cargo/config"]
    for file in configuration:
        try:
            text = Path(file).read_text(errors="replace")
        except OSError:
            continue
        for found in hosts_of(text) - PUBLIC_HOSTS:
            names[found] = "an archive configured on this machine"
    return names


def check_file(name, names):
    path = ROOT / name
    data = path.read_bytes()
    if b"\0" in data[:4096]:
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if not name.startswith("mtr/"):
            yield f"{name}: not UTF-8"
        return
    for secret, what in names.items():
        for number, line in enumerate(text.splitlines(), 1):
            if secret in line:
                yield f"{name}:{number}: names {what}: {secret}"
    if path.suffix not in SOURCES or name in GENERATED:
        return
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        yield f"{name}: {len(lines)} lines, {LINES_MAX} is the most"
    if path.suffix == ".rs" and not text.startswith("//!"):
        yield f"{name}: does not open with //! and what it is"
    licensed = any("GPL-2.0" in line or "General Public License" in line for line in lines[:25])
    if name.startswith("plugin/") and path.suffix in (".cc", ".h") and not licensed:
        yield f"{name}: does not open with its licence"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f"{name}:{number}: whitespace at the end"
        if "\t" in line and path.suffix != ".sh":
            yield f"{name}:{number}: a tab"
        if name != "scripts/tidy.py" and LEFT_BEHIND.search(line):
            yield f"{name}:{number}: left behind: {LEFT_BEHIND.search(line).group()}"


def main():
    names = local_names()
    faults = [fault for name in tracked_files() for fault in check_file(name, names)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
