"""Counts the accepted and the failed statements by kind. The counts show which kinds the generator rarely produces."""

import re
from collections import Counter

# The kind of a statement is the first pattern that matches its beginning. It has every feature whose pattern matches
# its text.
BEGINNINGS = [r"CREATE (OR REPLACE )?(TEMPORARY )?\w+", r"DROP (TEMPORARY )?\w+", r"ALTER (ONLINE |IGNORE )*\w+", r"XA \w+", r"HANDLER \w+ (READ \S+ (\S+)|\w+)",
              r"SELECT .* INTO OUTFILE", r"WITH RECURSIVE", r"SET \w+", r"LOCK TABLES", r"(INSERT|REPLACE|UPDATE)( IGNORE)?", r"DELETE HISTORY",
              r"ROLLBACK TO", r"\(?\w+"]
FEATURES = {
    "ON DUPLICATE": r" ON DUPLICATE KEY ", "RETURNING": r" RETURNING ", "INSERT SELECT": r"^(INSERT|REPLACE).*\) SELECT ", "parameters": r"^(?!SET).*\?",
    "joined change": r"^(UPDATE|DELETE).* JOIN ", "ordered change": r"^(UPDATE|DELETE).* ORDER BY ", "subquery": r"\(SELECT ", "GROUP BY": " GROUP BY ",
    "DISTINCT": "DISTINCT", "ROLLUP": " WITH ROLLUP", "window": r" OVER \(", "join": r"^SELECT.* JOIN ", "UNION and kin": r" (UNION|EXCEPT|INTERSECT) ",
    "CTE": r"^WITH ", "JSON": r"JSON_\w+\(", "LIMIT": " LIMIT ", "FORCE INDEX": " FORCE INDEX", "locking read": r"^SELECT.* (FOR UPDATE|LOCK IN SHARE MODE)",
    "FOR SYSTEM_TIME": " FOR SYSTEM_TIME ", "FOR PORTION": " FOR PORTION OF ", "PARTITION (": r" PARTITION \(", "GROUP_CONCAT": "GROUP_CONCAT",
    "WITHOUT OVERLAPS": " WITHOUT OVERLAPS", "ADD COLUMN": "ADD COLUMN", "DROP COLUMN": "DROP COLUMN", "MODIFY": "MODIFY COLUMN", "CHANGE": "CHANGE COLUMN",
    "ADD key": r"ADD (KEY|UNIQUE|PRIMARY)", "DROP key": "DROP (KEY|PRIMARY)", "IGNORED": " IGNORED", "ALTER PARTITION": r"^ALTER.* PARTITION",
    "ALGORITHM": "ALGORITHM=", "WITH TIES": " WITH TIES", "CONVERT PARTITION": "CONVERT (PARTITION|TABLE)", "SKIP LOCKED": " SKIP LOCKED", "SIGNAL": " SIGNAL ",
    "versioning": "SYSTEM VERSIONING", "CONVERT TO": "CONVERT TO", "ADD CHECK": "ADD CONSTRAINT",
}
FEATURES = {name: re.compile(pattern) for name, pattern in FEATURES.items()}
BEGINNINGS = [re.compile(pattern) for pattern in BEGINNINGS]


def kinds_of(statement):
    if statement.checks:
        return ["checks of whole tables"]
    text = statement.text
    first = next(filter(None, (pattern.match(text) for pattern in BEGINNINGS)))
    name = "SELECT INTO OUTFILE" if first.group().endswith("OUTFILE") else first.group()
    name = re.sub(r" [a-z]+\d+\b", " KEY", name)
    return [name] + ["  with " + name for name, pattern in FEATURES.items() if pattern.search(text)]


class Kinds:
    """Counts of accepted statements and of failed ones, by kind."""

    def __init__(self):
        self.accepted, self.failed = Counter(), Counter()

    def add(self, statements, answers):
        for statement, answer in zip(statements, answers):
            answer = answer[1][-1] if answer[0] == "many" else answer
            (self.failed if answer[0] == "error" else self.accepted).update(kinds_of(statement))

    def update(self, other):
        self.accepted.update(other.accepted)
        self.failed.update(other.failed)

    def table(self):
        names = sorted({*self.accepted, *self.failed})
        return "\n".join(["accepted   failed  kind of statement", *(f"{self.accepted[name]:8} {self.failed[name]:8}  {name}" for name in names)])
