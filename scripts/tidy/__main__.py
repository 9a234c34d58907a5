#!/usr/bin/env python3
"""Checks of the repository that compilers do not make: `python3 -m scripts.tidy`. Prints one line per fault; the exit
status is nonzero if there are any.

- A product file (crates/*/src, plugin/ without tests) has at most 600 lines, any other source file 800; a function of a
  Rust or C++ file has at most 100; the median product file has at most 180.
- No cycle between the modules of a crate, between crates, between the plugin's folders or files (`module_cycles`).
- A Rust file begins with a `//!` comment that describes it, a plugin file with its licence.
- No file contains the name of something that exists only on this machine: the directory above the checkout, the home
  directory, the host name, or an archive, index or registry that apt, pip or cargo is configured to use.
- Comments and documents do not use the words that `wording` lists.
- A relative link of a Markdown page leads to a file, and to a heading of it (`links`).
- `tests/main.rs` of a crate declares each file beside it, unless the file is a program of its own: otherwise its tests
  would not run.
- The sources contain the messages that the page for troubleshooting quotes (`messages`).
- Source files have no whitespace at line ends, no tabs (except shell scripts), and no debugging code.
"""

import os
import re
import socket
import statistics
import subprocess
import sys
from pathlib import Path

from . import links, messages, module_cycles, source_text, wording

ROOT = Path(__file__).resolve().parents[2]
PRODUCT_LINES_MAX = 600
LINES_MAX = 800
FUNCTION_LINES_MAX = 100
MEDIAN_LINES_MAX = 180
SOURCES = {".rs", ".cc", ".h", ".py", ".sh", ".c"}
PRODUCT = re.compile(r"crates/[^/]+/src/.*\.rs$|plugin/(?!tests/).*\.(?:cc|h)$")
TEST = re.compile(r"/tests(?:/|\.rs$)")
# Generated files have no limit.
GENERATED = {"Cargo.lock", "crates/c_api/include/teak.h", "crates/c_api/include/teak_server.h"}
PUBLIC_HOSTS = {"github.com", "crates.io", "docs.rs", "localhost", "127.0.0.1", "static.crates.io", "pypi.org"}
LEFT_BEHIND = re.compile(r"\bdbg!\(|\btodo!\(|\bunimplemented!\(|\bFIXME\b|\bXXX\b")


def tracked_files():
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                             check=True, capture_output=True)
    return sorted(name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file())


def hosts_of(text):
    return set(re.findall(r"https?://(?:[^/@\s]*@)?([A-Za-z0-9.-]+)", text))


def local_names():
    """Strings that no file may contain, each with a description."""
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


def is_product(name):
    return bool(PRODUCT.match(name)) and not TEST.search(name) and name not in GENERATED


def check_sizes(files):
    lengths = [len((ROOT / name).read_text().splitlines()) for name in files if is_product(name)]
    median = statistics.median_high(lengths)
    print(f"{len(lengths)} product files, median {median} lines, longest {max(lengths)}")
    if median > MEDIAN_LINES_MAX:
        yield f"the median product file has {median} lines, more than {MEDIAN_LINES_MAX}"


def check_cycles():
    yield from module_cycles.faults(module_cycles.all_edges())


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
                yield f"{name}:{number}: contains {what}: {secret}"
    if path.suffix not in SOURCES or name in GENERATED:
        return
    lines = text.splitlines()
    limit = PRODUCT_LINES_MAX if is_product(name) else LINES_MAX
    if len(lines) > limit:
        yield f"{name}: {len(lines)} lines, more than {limit}"
    functions = {".rs": source_text.rust_functions, ".cc": source_text.cpp_functions, ".h": source_text.cpp_functions}
    for function, line, length in functions.get(path.suffix, lambda _: ())(text):
        if length > FUNCTION_LINES_MAX:
            yield f"{name}:{line}: the function {function} has {length} lines, more than {FUNCTION_LINES_MAX}"
    if path.suffix == ".rs" and not text.startswith(("//!", "#![doc = include_str!")):
        yield f"{name}: does not open with a //! comment"
    licensed = any("GPL-2.0" in line or "General Public License" in line for line in lines[:25])
    if name.startswith("plugin/") and path.suffix in (".cc", ".h") and not licensed:
        yield f"{name}: does not open with its licence"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f"{name}:{number}: whitespace at the end"
        if "\t" in line and path.suffix != ".sh":
            yield f"{name}:{number}: a tab"
        if name != "scripts/tidy/__main__.py" and LEFT_BEHIND.search(line):
            yield f"{name}:{number}: debugging code: {LEFT_BEHIND.search(line).group()}"


def undeclared_tests(main, names, manifest):
    """The files in a folder of tests, without their extension, that neither `main` declares nor the manifest."""
    programs = set(re.findall(r'^path = "tests/(\w+)\.rs"$', manifest, re.MULTILINE))
    return sorted(set(names) - programs - set(re.findall(r"^mod (\w+);$", main, re.MULTILINE)))


def check_tests(files):
    for main in (name for name in files if re.fullmatch(r"crates/\w+/tests/main\.rs", name)):
        folder = (ROOT / main).parent
        names = [path.stem for path in folder.glob("*.rs")]
        for name in undeclared_tests((ROOT / main).read_text(), names, (folder.parent / "Cargo.toml").read_text()):
            yield f"{main}: does not declare {name}"


def check_wording(files):
    """Yields the faults of wording in the files that are text."""
    for name in files:
        if name not in GENERATED and not name.startswith("scripts/tidy/"):
            try:
                text = (ROOT / name).read_text()
            except UnicodeDecodeError:
                continue
            yield from wording.faults(name, text)


def main():
    names = local_names()
    files = tracked_files()
    faults = [fault for name in files for fault in check_file(name, names)]
    faults += [*check_sizes(files), *check_cycles(), *check_tests(files), *links.faults(ROOT, files)]
    faults += [*check_wording(files), *messages.faults(ROOT, files)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
