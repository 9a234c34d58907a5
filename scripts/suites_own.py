"""What is InnoDB's own, or refused by InnoDB by its own policy, cut out of the copies of the server's tests for both engines, for
scripts/suites.py.

Row formats, options of page compression and encryption, tables in which InnoDB shows or keeps its inner
figures, FLUSH TABLES ... FOR EXPORT, DISCARD and IMPORT TABLESPACE; and AUTO_INCREMENT as a later part of a key, which
InnoDB refuses: there the word is left out. A test of which a third of the statements ask for such things is about them: it is
left out of the count, and so is one that starts the server with InnoDB read-only."""

import re

NAME = r"""(?:`[^`\n]*`|"[^"\n]*"|[\w$@]+)"""
STRING = r"'[^'\n]*'"
LIST = rf"\((?:[^();']|{STRING}|\((?:[^();']|{STRING})*\))*\)"
VALUE = rf"(?:{STRING}|\"[^\"\n]*\"|`[^`\n]*`|\w+)"
OPTION = (r"(?:\bROW_FORMAT\s*=?\s*(?:FIXED|PAGE|COMPACT|REDUNDANT)\b"
          rf"|`?\b(?:ENCRYPTED|ENCRYPTION_KEY_ID|PAGE_COMPRESSED|PAGE_COMPRESSION_LEVEL)\b`?\s*=\s*{VALUE})")
TABLES = r"innodb_(?:sys_\w+|table_stats|index_stats)"
WORDS = re.compile(rb"row_format|auto_increment|innodb_sys_|innodb_(?:table|index)_stats|tablespace|for\s+export|encrypt|page_compress",
                   re.IGNORECASE)


def rule(pattern: str, replacement: str) -> tuple[re.Pattern[str], str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE), replacement


RULES = [
    rule(rf",[ \t]*{OPTION}", ""),
    rule(rf"[ \t]*{OPTION}(?:[ \t]*,)?", ""),
    rule(r"^([ \t]*(?:eval\s+)?)FLUSH\s+TABLES?\b[^;]*\bFOR\s+EXPORT\b", r"\1DO 0"),
    rule(r"^([ \t]*(?:eval\s+)?)ALTER\s+TABLE\b[^;]*\b(?:DISCARD|IMPORT)(?:\s+PARTITION\s+[\w, ]+)?\s+TABLESPACE\b", r"\1DO 0"),
    rule(rf"^([ \t]*(?:eval\s+|query_vertical\s+)?)(?:SELECT|INSERT|UPDATE|DELETE|CREATE\s+TABLE|ANALYZE)\b[^;]*\b{TABLES}\b[^;]*;", r"\1DO 0;"),
]
CREATE = re.compile(rf"\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?[^();]*({LIST})", re.IGNORECASE)
ITEMS = re.compile(rf"(?:[^,()']|{STRING}|{LIST})+")
KEY = re.compile(rf"^\s*(?:CONSTRAINT\s+(?:{NAME}\s+)?)?(?:PRIMARY\s+KEY|UNIQUE(?:\s+(?:KEY|INDEX))?|KEY|INDEX)\b[^(]*\(\s*({NAME})([^()]*(?:\([^()]*\))?[^()]*)\)",
                 re.IGNORECASE)
COUNTED = re.compile(r"\s*\bAUTO_INCREMENT\b(?!\s*=)", re.IGNORECASE)
OWN_KEY = re.compile(r"\b(?:PRIMARY|UNIQUE|KEY)\b", re.IGNORECASE)
READ_ONLY = re.compile(r"innodb[-_]read[-_]only", re.IGNORECASE)
STATEMENT = re.compile(r";[ \t]*$", re.MULTILINE)
HOLLOW = 1 / 3


def bare(name: str) -> str:
    return name.strip('`"').lower()


def uncounted(create: re.Match[str]) -> str:
    """The definition of a table without AUTO_INCREMENT of a column with which no key begins but of which a key has more."""
    body = create[1][1:-1]
    items = [match[0] for match in ITEMS.finditer(body)]
    counted = [item for item in items if COUNTED.search(item) and not KEY.match(item)]
    if len(counted) != 1 or OWN_KEY.search(COUNTED.sub("", counted[0])):
        return create[0]
    name = re.match(rf"\s*({NAME})", counted[0])
    keys = [key for item in items if (key := KEY.match(item))]
    if name is None or not keys or any(bare(key[1]) == bare(name[1]) for key in keys):
        return create[0]
    if not any(re.search(rf"[`\"\s,]{re.escape(bare(name[1]))}\b", key[2], re.IGNORECASE) for key in keys):
        return create[0]
    return create[0].replace(counted[0], COUNTED.sub("", counted[0]))


def without(statements: str) -> str:
    for pattern, replacement in RULES:
        statements = pattern.sub(replacement, statements)
    return CREATE.sub(uncounted, statements)


def is_about(text: str, options: str) -> bool:
    """Whether a test is about such things."""
    if READ_ONLY.search(options):
        return True
    statements = [part for part in STATEMENT.split(text) if part.strip()]
    asked = sum(without(part + ";") != part + ";" for part in statements)
    return asked >= max(1, len(statements)) * HOLLOW
