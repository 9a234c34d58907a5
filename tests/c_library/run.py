"""`make install` into an empty directory. Then the programs of examples/c are built with the installed shared and static
library, as a user would build them, and their output is compared. Each program counts as one test.
"""

import os
import shutil
import subprocess
import sys

from tests.harness import BUILD, ROOT, finish

DIRECTORY = BUILD / "c_library"
# Lines of each program's output.
EXPECTED = {
    "basic": ["pear: green", "plum: blue"],
    "secondary_index": ["3 refused by index 1", "in London: bob@example.org"],
    "transactions": ["a = 400", "b = 400"],
}


def run(*command, **environment):
    """The output of a command. A failed one ends the test."""
    ended = subprocess.run([str(word) for word in command], cwd=ROOT, env=os.environ | environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if ended.returncode:
        sys.exit(f"FAILED: {' '.join(ended.args)}\n{ended.stdout}")
    return ended.stdout


def main():
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    prefix, programs = DIRECTORY / "usr", DIRECTORY / "programs"
    programs.mkdir(parents=True)
    run("make", "--no-print-directory", "install", f"PREFIX={prefix}", "DESTDIR=")
    run("make", "--no-print-directory", "-C", "examples/c", f"OUT={programs}", "CFLAGS=-O2 -Wall -Wextra -Werror",
        PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    passed, failed = 0, 0
    for name, lines in EXPECTED.items():
        for program in (name, f"{name}-static"):
            ended = subprocess.run([programs / program, DIRECTORY / f"{program}.data"], text=True, capture_output=True, check=False)
            missing = [line for line in lines if line not in ended.stdout.splitlines()]
            if ended.returncode or missing:
                print(f"FAILED: {program}: status {ended.returncode}, missing lines {missing}\n{ended.stdout}{ended.stderr}")
                failed += 1
            else:
                passed += 1
    return finish(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
