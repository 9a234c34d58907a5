"""Differences that do not count against an engine, for tests/server_suites/run.py. Each hunk is examined by itself.

Unsteady: InnoDB also prints different lines in a second run (ORDER BY RAND(), times of processes, sampled
histograms). Recorded: the test's recorded result has Teak's lines, and not InnoDB's. The two lines before and after
must agree, too."""

import difflib
import re
from pathlib import Path

from tests.harness import SERVER_TESTS as SYSTEM

# Maximum number of lines that may be equal by chance between lines that InnoDB does not repeat.
CHANCE = 2
AROUND = 2
FAILED = re.compile(r"^(mysqltest: |ERROR |Error\t)")
ENGINE = re.compile(r"\b(ENGINE|innodb|teak|myisam|aria)\b", re.IGNORECASE)


def hunks(left: list[str], right: list[str]) -> list[tuple[int, int, int, int]]:
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def unsteady(left: list[str], again: list[str]) -> list[tuple[int, int]]:
    """Ranges of lines of one run that another run did not repeat."""
    found: list[tuple[int, int]] = []
    for i1, i2, _, _ in hunks(left, again):
        if found and i1 - found[-1][1] <= CHANCE:
            found[-1] = (found[-1][0], i2)
        else:
            found.append((i1, i2))
    return found


def is_unsteady(hunk: tuple[int, int, int, int], left: list[str], right: list[str], stretches: list[tuple[int, int]]) -> bool:
    i1, i2, j1, j2 = hunk
    if not any(begin <= i1 and i2 <= end for begin, end in stretches):
        return False
    failed = [any(FAILED.match(line) for line in lines) for lines in (left[i1:i2], right[j1:j2])]
    return failed[0] or not failed[1]


def is_recorded(hunk: tuple[int, int, int, int], right: list[str], recorded: list[str], places: dict[str, list[int]]) -> bool:
    _, _, j1, j2 = hunk
    wanted = right[max(0, j1 - AROUND) : j2 + AROUND]
    return any(recorded[at : at + len(wanted)] == wanted for at in places.get(wanted[0], [])) if wanted else False


def explained(left: list[str], right: list[str], again: list[str] | None, recorded: list[str] | None) -> str | None:
    """Returns "unsteady" if all differences are unsteady, "recorded" if the others are recorded, otherwise None."""
    stretches = unsteady(left, again) if again else []
    named_right = [ENGINE.sub("ENGINE", line) for line in right]
    named = [ENGINE.sub("ENGINE", line) for line in recorded or []]
    places: dict[str, list[int]] = {}
    for at, line in enumerate(named):
        places.setdefault(line, []).append(at)
    kind = "unsteady"
    for hunk in hunks(left, right):
        if is_unsteady(hunk, left, right, stretches):
            continue
        if not is_recorded(hunk, named_right, named, places):
            return None
        kind = "recorded"
    return kind


def recorded_result(test: str) -> bytes | None:
    """The recorded result of a test, the same for all combinations; None if there is none."""
    suite, _, name = test.partition(",")[0].partition(".")
    for folder in (suite, f"suite/{suite}", f"plugin/{suite}/{suite}"):
        for place in (SYSTEM / folder / f"{name}.result", SYSTEM / folder / "r" / f"{name}.result"):
            if place.exists():
                return place.read_bytes()
    return None
