"""Determines which of the server's tests create a table of the engine under test, for tests/server_suites/run.py. The
others do not test the engine.

Reads the text of a test in order, with all files that it sources, and finds the default engine and the engine of
each CREATE TABLE, CREATE SEQUENCE and ALTER TABLE ... ENGINE. Where the text names no engine, the engine under
test is used."""

import re
from pathlib import Path

from tests.harness import SERVER_TESTS as SYSTEM

COMMENT_OR_ECHO = re.compile(r"^[ \t]*(?:#|(?:--[ \t]*)?echo\b).*$", re.MULTILINE)
SOURCE = re.compile(r"^[ \t]*(?:--[ \t]*)?source[ \t]+([^\s;]+)[ \t]*;?[ \t]*$", re.MULTILINE | re.IGNORECASE)
DEPTH = 9
EVENT = re.compile(
    r"""^[ \t]*(?:--[ \t]*)?let[ \t]+\$(?P<name>\w+)[ \t]*=[ \t]*`?(?P<value>[^\n;`]*)
    |\bset\b[^;]*?\b(?:default_)?storage_engine[ \t`]*:?=\s*(?P<default>['"]?[$\w]+)
    |\bcreate\s+(?:or\s+replace\s+)?(?:temporary\s+)?(?:table|sequence)\b(?P<created>[^;]*)
    |\balter\s+(?:online\s+)?(?:ignore\s+)?table\b(?P<altered>[^;]*\bengine\b[^;]*)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE)
ENGINE = re.compile(r"\bengine\s*=?\s*['\"`]?(\$?\w+)", re.IGNORECASE)
COPY = re.compile(r"\s*(?:if\s+not\s+exists\s+)?\S+\s+\(?\s*like\s", re.IGNORECASE)
OPTION = re.compile(r"default[-_]storage[-_]engine=(\w+)", re.IGNORECASE)
OTHERS = {"archive", "aria", "blackhole", "connect", "csv", "example", "federated", "heap", "isam", "maria", "memory", "merge",
          "mrg_isam", "mrg_myisam", "myisam", "ndb", "ndbcluster", "rocksdb", "sequence"}


def expanded_text(path: Path, suite: Path, depth: int = 0) -> str:
    """The text of a test with the files that it sources, without comments."""

    def sourced(match: re.Match[str]) -> str:
        places = (folder / match[1] for folder in (SYSTEM, path.parent, suite, suite.parent, SYSTEM / "suite"))
        place = next((place for place in places if place.is_file()), None)
        return f"\n{expanded_text(place, suite, depth + 1)}\n" if place and depth < DEPTH else match[0]

    return SOURCE.sub(sourced, COMMENT_OR_ECHO.sub("", path.read_text("latin-1")))


def makes_tables(test: Path, suite: Path) -> bool:
    """Whether a test of a suite creates a table of the engine under test."""
    options = test.with_suffix(".opt")
    named = OPTION.search(options.read_text("latin-1")) if options.exists() else None
    default = named[1].lower() if named else ""
    variables: dict[str, str] = {}

    def value(word: str) -> str:
        word = word.strip("'\"` ")
        for _ in range(DEPTH):
            word = variables.get(word[1:], word) if word.startswith("$") else word
        return word.lower()

    for event in EVENT.finditer(expanded_text(test, suite)):
        if event["name"]:
            variables[event["name"]] = event["value"].strip("'\"` ")
        elif event["default"]:
            default = value(event["default"])
        else:
            text = event["created"] or event["altered"] or ""
            engine = ENGINE.search(text)
            if engine is None and COPY.match(text):
                continue
            if (value(engine[1]) if engine else default) not in OTHERS:
                return True
    return False
