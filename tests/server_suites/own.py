"""Removes features specific to InnoDB from the copies of the server's tests for both engines, for
tests/server_suites/run.py.

These are: row formats, options of page compression and encryption, tables of InnoDB's statistics and internals, FLUSH
TABLES ... FOR EXPORT, DISCARD and IMPORT TABLESPACE, commands about .ibd files. A test in which at least a third of the
statements use these, or which starts the server with InnoDB read-only, is specific to InnoDB and not counted."""

import re

STRING = r"'[^'\n]*'"
VALUE = rf"(?:{STRING}|\"[^\"\n]*\"|`[^`\n]*`|\w+)"
OPTION = (r"(?:\bROW_FORMAT\s*=?\s*(?:FIXED|PAGE|COMPACT|REDUNDANT)\b"
          rf"|`?\b(?:ENCRYPTED|ENCRYPTION_KEY_ID|PAGE_COMPRESSED|PAGE_COMPRESSION_LEVEL)\b`?\s*=\s*{VALUE})")
TABLES = r"innodb_(?:sys_\w+|table_stats|index_stats)"
WORDS = re.compile(rb"row_format|innodb_sys_|innodb_(?:table|index)_stats|tablespace|\.ibd\b|for\s+export|encrypt|page_compress|innodb_compression|innodb_default_row|innodb_file_per",
                   re.IGNORECASE)


def rule(pattern: str, replacement: str) -> tuple[re.Pattern[str], str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE), replacement


RULES = [
    rule(rf",[ \t]*{OPTION}", ""),
    rule(rf"[ \t]*{OPTION}(?:[ \t]*,)?", ""),
    rule(r"^[ \t]*SET\b[^;]*\binnodb_(?:compression_default|default_row_format|file_per_table)\b[^;]*;", "DO 0;"),
    rule(r"^[ \t]*(?:--[ \t]*)?(?:remove|copy|move)_file\b[^\n]*\.ibd\b[^\n]*\n", ""),
    rule(r"^([ \t]*(?:(?:--[ \t]*)?(?:eval|send)\s+)?)FLUSH\s+(?:LOCAL\s+|NO_WRITE_TO_BINLOG\s+)?TABLES?\b[^;]*\bFOR\s+EXPORT\b", r"\1DO 0"),
    rule(r"^([ \t]*(?:eval\s+)?)ALTER\s+TABLE\b[^;]*\b(?:DISCARD|IMPORT)(?:\s+PARTITION\s+[\w, ]+)?\s+TABLESPACE\b", r"\1DO 0"),
    rule(rf"^([ \t]*(?:eval\s+|query_vertical\s+)?)(?:SELECT|INSERT|UPDATE|DELETE|CREATE\s+TABLE|ANALYZE)\b[^;]*\b{TABLES}\b[^;]*;", r"\1DO 0;"),
]
# Options of the server.
SETTING = re.compile(rb"--(?:loose-)?innodb[-_]default[-_]row[-_]format=\w+", re.IGNORECASE)
READ_ONLY = re.compile(r"--innodb[-_]read[-_]only\b", re.IGNORECASE)
STATEMENT = re.compile(r";[ \t]*$", re.MULTILINE)
HOLLOW = 1 / 3


def without(statements: str) -> str:
    for pattern, replacement in RULES:
        statements = pattern.sub(replacement, statements)
    return statements


def is_about(text: str, options: str) -> bool:
    """Whether a test is specific to InnoDB."""
    if READ_ONLY.search(options + text):
        return True
    statements = [part for part in STATEMENT.split(text) if part.strip()]
    asked = sum(without(part + ";") != part + ";" for part in statements)
    return asked >= max(1, len(statements)) * HOLLOW
