"""A third opinion on a SELECT: the answers of MyISAM and Aria for InnoDB's rows.

Some of the server's plans lose rows in every engine, and the choice of the plan depends on an engine's estimates. So
Teak's answer is right if a table without keys gives the same answer. The difference is not a bug of Teak if another
engine with the same rows, keys and plan gives the same answer. The copies are temporary tables in InnoDB's session,
which hide the original tables and do not end the transaction. Their rows are read by scans from InnoDB.
"""

import re

from .compare import flat
from tests.harness.wire import CLOSE, LAST_PREPARED, PREPARE, QUERY, execution, fields

ENGINES = ("MyISAM", "Aria")
READS = ("SELECT ", "WITH ", "EXECUTE s")
OPEN = re.compile(r" FOR SYSTEM_TIME | PARTITION \(| INTO |\bseen\b")  # not supported by temporary tables, or not visible to views
HINT = re.compile(r" (?:USE|FORCE|IGNORE) INDEX (?:FOR (?:JOIN|ORDER BY|GROUP BY) )?\([^()]*\)")
DEFAULTS = ["optimizer_switch", "join_cache_level", "tmp_memory_table_size"]


class _Refused(Exception):
    """A copy cannot be created, so there is no third opinion."""


def _run(session, text):
    answer = session.run(text)
    if answer[0] == "error":
        raise _Refused(f"{text}: {answer}")
    return [[field and field.decode("utf-8", "surrogateescape") for field in fields(row)] for row in answer[2]] if answer[0] == "rows" else []


def _ask(session, statement, text, name):
    text = text.replace("{db}", name).encode("utf-8", "surrogatepass")
    if statement.parameters is None:
        session.send([QUERY + text])
        return [session.read()]
    session.send([PREPARE + text, *map(execution, statement.parameters), CLOSE + LAST_PREPARED.to_bytes(4, "little")])
    return flat(session.read_prepared(len(statement.parameters)))


def _same(statement, left, right):
    def rows(answer):
        return answer[:2] if answer[0] == "error" else answer[2] if statement.ordered else sorted(answer[2])
    return len(left) == len(right) and all(one[0] == other[0] and one[0] != "ok" and rows(one) == rows(other) for one, other in zip(left, right))


def _keyed(definition, engine):
    """Changes the definition of an InnoDB table to that of a temporary table of another engine."""
    if re.search(r"PERIOD FOR|SYSTEM VERSIONING", definition):
        raise _Refused("no temporary table has periods")
    body, options = definition.rsplit("\n)", 1)
    collation = re.search(r"DEFAULT CHARSET=\w+(?: COLLATE=\w+)?", options)
    return body.replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1) + f"\n) ENGINE={engine} {collation.group() if collation else ''}"


def _forced(session, statement, tables, name):
    """Returns the statement unchanged. If it names no keys, also returns it with the keys of this session's plan, and
    with each key of its only table, because the first run may have used another plan."""
    text = statement.text
    if statement.parameters is not None or HINT.search(text) or not text.startswith(("SELECT ", "WITH ")):
        return [text]
    texts = [text]
    if len(tables) == 1 and len(re.findall(rf"\b{tables[0]}\b", text)) == 1:
        keys = sorted({row[2] for row in _run(session, f"SHOW KEYS FROM {tables[0]}")})
        texts += [re.sub(rf"\b{tables[0]}\b( [xyz]\b)?", lambda match, key=key: f"{match.group()} FORCE INDEX ({key})", text) for key in keys]
    for row in _run(session, "EXPLAIN " + text.replace("{db}", name)):
        if row[2] and row[5] and re.fullmatch(r"\w+", row[2]):
            alias = rf"\b{row[2]}\b" if row[2] not in "xyz" else rf"\w+ {row[2]}\b"
            text = re.sub(rf"((?:FROM|JOIN) {alias})(?! [xyz]\b| FORCE)", lambda match, keys=row[5]: f"{match.group(1)} FORCE INDEX ({keys.replace('|filter', '')})", text)
    return [*texts, text]


def opinion(pair, statement, second):
    """The engine that returns Teak's answer `second`, as text, or None. The pair's data must be as
    before the statement."""
    if not statement.text.startswith(READS) or OPEN.search(statement.text):
        return None
    session, of_teak = pair.sessions_of(statement)
    try:
        return _opinion(session, of_teak, pair.names, statement, flat(second))
    except _Refused:
        return None


def _opinion(session, of_teak, names, statement, wanted):
    tables = [row[0] for row in _run(session, "SHOW FULL TABLES WHERE table_type = 'BASE TABLE'")]
    tables = [table for table in tables if re.search(rf"\b{table}\b", statement.text)] or tables
    (mode,), = _run(session, "SELECT @@sql_mode")
    _run(session, "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', check_constraint_checks = 0")
    definitions = {table: _run(session, f"SHOW CREATE TABLE {table}")[0][1] for table in tables}
    columns = {}
    for table in tables:
        found = _run(session, f"SELECT column_name, generation_expression FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '{table}'")
        columns[table] = [", ".join(name for name, _ in found), ", ".join(name for name, generated in found if generated is None)]
        _run(session, f"CREATE TEMPORARY TABLE kept_{table} ENGINE=MyISAM SELECT {columns[table][0]} FROM {table} USE INDEX ()")
    for table in tables:
        _run(session, f"CREATE TEMPORARY TABLE {table} ENGINE=MyISAM SELECT {columns[table][0]} FROM kept_{table}")
    _run(session, f"SET sql_mode = '{mode}'")
    if _same(statement, _ask(session, statement, HINT.sub("", statement.text), names[0]), wanted):
        return "a table without keys returns Teak's answer"
    kept = [(name, _run(session, f"SELECT @@{name}")[0][0]) for name in DEFAULTS]
    for name in DEFAULTS:
        _run(session, f"SET {name} = DEFAULT")
    answer = _ask(session, statement, HINT.sub("", statement.text), names[0])
    for name, value in kept:
        _run(session, f"SET {name} = " + (value if value.isdigit() else f"'{value}'"))
    if _same(statement, answer, wanted):
        return "a table without keys returns Teak's answer, with the default plans"
    texts = _forced(of_teak, statement, tables, names[1])
    for engine in ENGINES:
        _run(session, "SET sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")
        try:
            for table in tables:
                _run(session, f"DROP TEMPORARY TABLE IF EXISTS {table}")
                _run(session, _keyed(definitions[table], engine))
                _run(session, f"INSERT INTO {table} ({columns[table][1]}) SELECT {columns[table][1]} FROM kept_{table}")
                _run(session, f"ANALYZE TABLE {table}")
        except _Refused:
            continue
        finally:
            _run(session, f"SET sql_mode = '{mode}'")
        if any(_same(statement, _ask(session, statement, text, names[0]), wanted) for text in dict.fromkeys(texts)):
            return f"{engine} with the same keys returns Teak's answer"
    return None
