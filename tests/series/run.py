"""Runs tests with another series of MariaDB, in a system of Debian that has it. Needs root.

    python3 -m tests.series.run 11.8                      everything, as `make test SERVER=11.8` does
    python3 -m tests.series.run 11.8 mtr kill             some stages of scripts/test.sh, or old-data
    python3 -m tests.series.run 11.8 -- mtr/run.sh teak.types      a command in the system

The stage old-data writes a data directory with this machine's server, and opens it there (old_data.py). Output of the stages is in
build/server-SERIES/build/test. Sizes of the stages are given as for scripts/test.sh.
"""

import os
import shutil
import subprocess
import sys

from tests.harness import BUILD, ROOT
from tests.packages.root import enter_namespaces

from .system import SUITES, System, directory, inner_build

OLD_DATA = "old-data"
STAGES = ["setup", "build", "mtr", "compare", "kill", "suites", OLD_DATA]
# Smaller than those of `make test`, because most of what they exercise does not depend on the server.
SIZES = {"STATEMENTS": "60000", "KILLS": "8", "LOAD_KILLS": "4", "DDL_KILLS": "6", "ROUNDS": "6", "ONLINE_ROUNDS": "2", "TRANSACTIONS": "1500"}
PASSED_ON = ("TESTS", "RECORD", "MTR_OPTIONS", "MTR_PARALLEL", "JOBS")
# Those of the server's tests whose output is compared; the list of accepted differences is that of 10.11.
SUITE_TESTS = "handler.% main.insert_update main.null"
CORE = "libteak_c_api.a"


def series_here():
    return ".".join((BUILD / "mariadb-version").read_text().split(".")[:2])


def prepare(series, with_data):
    """What is done on this machine: the core is compiled, and the old data are written."""
    inside = inner_build(series)
    inside.mkdir(parents=True, exist_ok=True)
    subprocess.run(["make", "--no-print-directory", "plugin" if with_data else "core"], cwd=ROOT, check=True)
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    shutil.copy2(target / "release" / CORE, inside / CORE)
    if with_data:
        from . import old_data
        old_data.write(inside / OLD_DATA)


def run_inside(series, arguments):
    system = System(series)
    system.enter()
    sizes = {"SUITE_TESTS": SUITE_TESTS} | {name: os.environ.get(name, value) for name, value in SIZES.items()}
    environment = sizes | {name: os.environ[name] for name in PASSED_ON if name in os.environ} | {"CORE_LIBRARY": f"build/{CORE}"}
    command = arguments[1:] if arguments[0] == "--" else ["scripts/test.sh", *arguments]
    return system.call(*command, environment=environment)


def main(arguments):
    if arguments[:1] == ["--inside"]:
        return run_inside(arguments[1], arguments[2:])
    if not arguments or arguments[0] not in SUITES:
        sys.exit(f"error: name a series of MariaDB: {', '.join(SUITES)}\n\n{__doc__}")
    series, *stages = arguments
    subprocess.run([ROOT / "scripts/setup.sh"], check=True)
    if series_here() == series:
        sys.exit(f"error: this machine has MariaDB {series}: run scripts/test.sh")
    stages = stages or STAGES
    prepare(series, OLD_DATA in stages)
    (directory(series) / "log").write_text("")
    return enter_namespaces("tests.series.run", series, *stages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
