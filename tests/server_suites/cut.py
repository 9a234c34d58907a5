"""Removes features that Teak rejects, and features specific to InnoDB (own.py), from the copies of the server's tests
for both engines, for tests/server_suites/run.py.

So the remaining part of a test can be compared. Foreign keys, FULLTEXT and SPATIAL keys, DATA and INDEX DIRECTORY
are removed with an adjacent comma, MATCH ... AGAINST becomes a constant, and columns of transaction-precise
versioning become timestamps."""

import re
from pathlib import Path

from . import own

NAME = r"""(?:`[^`\n]*`|"[^"\n]*"|[\w$@]+)"""
TABLE = rf"{NAME}(?:\s*\.\s*{NAME})?"
STRING = r"'[^'\n]*'"
LIST = rf"\((?:[^();']|{STRING}|\((?:[^();']|{STRING})*\))*\)"
ACTIONS = (r"(?:\s*\bMATCH\s+(?:FULL|PARTIAL|SIMPLE)\b"
           r"|\s*\bON\s+(?:DELETE|UPDATE)\s+(?:RESTRICT|CASCADE|SET\s+NULL|NO\s+ACTION|SET\s+DEFAULT)\b)*")
REFERENCES = rf"\bREFERENCES\s+{TABLE}\s*(?:{LIST}|(?=[,)]|MATCH\b|ON\s)){ACTIONS}"
FOREIGN = (rf"(?:\bCONSTRAINT\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:{NAME}\s+)?)?\bFOREIGN\s+KEY\s*(?:IF\s+NOT\s+EXISTS\s*)?"
           rf"(?:{NAME}\s*)?{LIST}\s*{REFERENCES}")
OPTIONS = r"(?:\s*\b(?:WITH\s+PARSER\s+\w+|COMMENT\s*=?\s*'[^']*'|(?:NOT\s+)?IGNORED\b|KEY_BLOCK_SIZE\s*=?\s*\d+))*"
KEY = rf"\b(?:FULLTEXT|SPATIAL)\b(?:\s+(?:KEY|INDEX)\b)?(?:\s+IF\s+NOT\s+EXISTS\b)?(?:\s*{NAME})?\s*{LIST}{OPTIONS}"
ITEM = rf"(?:{FOREIGN}|{KEY})"
DIRECTORY = r"\b(?:DATA|INDEX)\s+DIRECTORY\s*=?\s*(?:'[^'\n]*'|\"[^\"\n]*\")"
WORDS = re.compile(rb"fulltext|spatial|references|against|directory|row\s+start|row\s+end", re.IGNORECASE)
# Comments and messages of a test.
ASIDE = re.compile(r"(^[ \t]*(?:#|(?:--[ \t]*)?echo\b).*\n)", re.MULTILINE)
SOURCE = re.compile(rb"^\s*(?:--\s*)?source\s+([^\s;]+)", re.MULTILINE | re.IGNORECASE)


def rule(pattern: str, replacement: str) -> tuple[re.Pattern[str], str]:
    return re.compile(pattern, re.IGNORECASE), replacement


RULES = [
    rule(rf"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:FULLTEXT|SPATIAL)\s+(?:INDEX|KEY)\s+(?:IF\s+NOT\s+EXISTS\s+)?{NAME}\s+ON\s+{TABLE}\s*"
         rf"{LIST}{OPTIONS}(?:\s*\b(?:ALGORITHM|LOCK)\s*=?\s*\w+)*", "DO 0"),
    rule(rf",\s*(?:ADD\s+)?{ITEM}", ""),
    rule(rf"(?:\bADD\s+)?{ITEM}\s*,", ""),
    rule(rf"(?:\bADD\s+)?{ITEM}", ""),
    rule(rf"(?:\bCONSTRAINT\s+{NAME}\s+)?{REFERENCES}", ""),
    rule(rf"\bMATCH\s*(?:{LIST}|{TABLE}(?:\s*,\s*{TABLE})*)\s*AGAINST\s*{LIST}", "(0=0)"),
    rule(rf",?\s*{DIRECTORY}", " "),
    rule(r"\bBIGINT(?:\s*\(\d+\))?(?:\s+UNSIGNED)?(?=\s+(?:GENERATED\s+ALWAYS\s+)?AS\s+ROW\s+(?:START|END)\b)", "TIMESTAMP(6)"),
]


def cut(text: bytes) -> bytes:
    """The text of a test without the parts that Teak refuses or that are specific to InnoDB."""
    if not WORDS.search(text) and not own.WORDS.search(text):
        return text
    pieces = ASIDE.split(text.decode("latin-1"))
    return "".join(piece if ASIDE.fullmatch(piece) else without(piece) for piece in pieces).encode("latin-1")


def without(statements: str) -> str:
    for pattern, replacement in RULES:
        statements = pattern.sub(replacement, statements)
    return own.without(statements)


def touched(tests: Path, changed: set[Path]) -> list[str]:
    """The tests below a directory, as SUITE.TEST, that are among the changed files or include one of them."""
    sourced = {path: {Path(name.decode("latin-1")).name for name in SOURCE.findall(path.read_bytes())}
               for path in tests.rglob("*") if path.suffix in (".test", ".inc") and path.is_file()}
    names = {path.name for path in changed}
    while new := {path.name for path, includes in sourced.items() if includes & names} - names:
        names |= new
    return sorted(name_of(path.relative_to(tests)) for path, includes in sourced.items()
                  if path.suffix == ".test" and (path in changed or includes & names))


def name_of(test: Path) -> str:
    folders = [part for part in test.parts[:-1] if part not in ("suite", "t")]
    return f"{'/'.join(folders)}.{test.stem}"
