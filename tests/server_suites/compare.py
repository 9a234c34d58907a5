"""Compares the output of a test on two engines, for tests/server_suites/run.py.

The result is the first that applies:
same        equal except for the engine's name and directories
estimates   equal if these are removed too: values that an engine estimates or measures, times, names of data files, and
            the method of ALTER TABLE (whether it copies; the reason and the advice if both engines refuse an algorithm)
unsteady, recorded    the remaining differences do not count against an engine (hunks.py)
plan        equal if plans and the counters of their steps are removed too
order       the remaining lines are the same, in another order
different   anything else"""

import datetime
import difflib
import re

from . import hunks

# Matches only at the beginning of a path. A match at each character of a long line would take minutes.
TREE = re.compile(r"(?<!\S)\S*/tree-\w+/")
VARDIR = re.compile(r"(?<!\S)\S*/var-\w+/(\d/)?")
ENGINE = re.compile(r"\b(innodb|teak)(?:\b|(?=_(?:trx|lock_waits)\b))", re.IGNORECASE)
# Tab-separated EXPLAIN by its heading, vertical EXPLAIN, EXPLAIN and ANALYZE FORMAT=JSON.
PLAN = re.compile(r"^id\tselect_type\ttable\t")
PLAN_FIGURES = {"rows", "filtered", "r_rows", "r_filtered"}
VERTICAL = re.compile(r"^ *(rows|filtered): [0-9.]+$")
JSON = re.compile(r'"(\w*rows\w*|filtered|\w*cost\w*|selectivity\w*|r_[a-z_]+)": [0-9.]+(?:e[-+]?[0-9]+)?')
# mariadb-dump --xml.
XML = re.compile(r'\b(Rows|Avg_row_length|(?:Max_data|Data|Index)_length|Data_free|Cardinality)="\d*"')
# SHOW INDEX, SHOW TABLE STATUS, INFORMATION_SCHEMA.
FIGURES = {"cardinality", "data_length", "index_length", "avg_row_length", "max_data_length", "data_free", "table_rows"}
STATUS_FIGURES = FIGURES | {"rows"}
# Metadata of a result: the length of its longest value, which may be the engine's name.
FIGURES |= {"max length"}
NAMES = re.compile(r"^[\w()@.*]+(\t[\w()@.* ]+)*$")
FIGURE = re.compile(r"^(NULL|[0-9.]+(\|[0-9.]+%?)?( \([0-9.]+%\))?)$")
# The reason and the advice if both engines refuse an ALTER; if both accept it, whether it copies rows.
REFUSED = re.compile(r"\b(ALGORITHM|LOCK)=(\w+) is not supported(?: for this operation\. |\. Reason: [^\n]*?)(?:Try |\. Try )[A-Z]+=\w+")
WRONG_REFUSAL = re.compile(r"^mysqltest: (?:In included file [^\n]*\n(?:included from [^\n]*\n)*)?At line \d+: query '[^;]*?' failed with wrong "
                           r"errno ER_ALTER_OPERATION_NOT_SUPPORTED(?:_REASON)? [^\n]*\n", re.MULTILINE)
COPIED = re.compile(r"^((?:alter|create|drop)\s[^;]*;\n)affected rows: \d+\n(info: Records: )\d+", re.MULTILINE | re.IGNORECASE)
# Timestamps. Those of the last 90 days are times of the run and are not compared.
CLOCK = re.compile(r"\b(20\d\d-\d\d-\d\d) \d\d:\d\d:\d\d(\.\d{1,6})?")
# Counters of the steps of a plan.
STEPS = re.compile(r"^(Handler_|Feature_|Last_query_cost|Select_|Sort_|Created_tmp)", re.IGNORECASE)
# Headings of plans in JSON, also of parts of the optimizer's trace that JSON functions extract.
PLAN_AS_JSON = re.compile(r"EXPLAIN$|ANALYZE$|JS$|QUERY\tTRACE|.*\bjson_(?:detailed|extract|value)\(.*\btrace\b", re.IGNORECASE)
REWRITTEN = "Note\t1003\t"
# An optimizer trace follows its query on the same line.
TRACE, TRACE_ENDS = "QUERY\tTRACE\tMISSING", re.compile(r"\t\d+\t[01]$")
# A background thread of the server writes these events to the binary log.
CHECKPOINT = re.compile(r"^[^\t]+\t#\tBinlog_checkpoint\t")
# An engine that rebuilds the table itself does not print the server's note.
REBUILT = re.compile(r"^[^\t]+\toptimize\tnote\tTable does not support optimize, doing recreate \+ analyze instead$")
# Each engine has its own files for a table's data: only their existence is compared. Long names are shortened to a file name's maximum.
DATA = re.compile(r"^(\S+?)\.(?:[^\s.]+-[0-9a-f]{8}\.ENGINE|ibd)$", re.IGNORECASE)
NAME_CHARACTERS = 200
FILE = re.compile(r"^\S+\.(?:DATA|frm|par|isl|opt)$")


def lines(text: bytes) -> list[str]:
    return ENGINE.sub("ENGINE", VARDIR.sub("VAR/", TREE.sub("TREE/", text.decode("utf-8", "surrogateescape")))).split("\n")


def hide_current_date(match: re.Match[str]) -> str:
    try:
        age = datetime.date.today() - datetime.date.fromisoformat(match[1])
    except ValueError:
        return match[0]
    return "NOW" if 0 <= age.days < 90 else match[0]


def figures_of(heading: list[str]) -> list[int]:
    """The numbers of the columns that have estimated or measured values, given the names of all columns."""
    names = [name.lower() for name in heading]
    if names[:3] == ["id", "select_type", "table"]:
        wanted = PLAN_FIGURES
    elif names[:6] == ["id", "user", "host", "db", "command", "time"]:
        wanted = {"id", "time"}
    else:
        wanted = STATUS_FIGURES if "row_format" in names else FIGURES
    return [at for at, name in enumerate(names) if name in wanted]


def without_ways(text: list[str]) -> list[str]:
    """The text without times, the methods of DDL statements, and checkpoint events of the binary log."""
    whole = WRONG_REFUSAL.sub("", "\n".join(text))
    text = CLOCK.sub(hide_current_date, COPIED.sub(r"\1\2#", REFUSED.sub(r"\1=\2 is not supported", whole))).split("\n")
    return [line for line in text if not CHECKPOINT.match(line) and not REBUILT.match(line)]


def without_estimates(text: list[str]) -> list[str]:
    """The text without estimated rows and percentages, cardinalities and sizes."""
    result, columns, width = [], [], 0
    for line in text:
        fields = line.split("\t")
        if NAMES.match(line) and (found := figures_of(fields)):
            columns, width = found, len(fields)
        elif columns and len(fields) == width:
            for at in columns:
                if FIGURE.match(fields[at]):
                    fields[at] = "#"
            line = "\t".join(fields)
        else:
            columns = []
            line = line.split(":")[0] + ": #" if VERTICAL.match(line) else XML.sub(r'\1="#"', JSON.sub(r'"\1": #', line))
        result.append(line)
    return result


def without_plans(text: list[str]) -> list[str]:
    """The text without plans."""
    result, width, in_json, in_trace = [], 0, False, False
    for at, line in enumerate(text):
        if in_trace or (line.startswith(TRACE) and any(TRACE_ENDS.search(end) for end in text[at:])):
            in_trace = not TRACE_ENDS.search(line)
            continue
        if PLAN.match(line):
            width = line.count("\t")
            continue
        if width and line.count("\t") == width:
            continue
        width = 0
        if PLAN_AS_JSON.match(line):
            in_json = True
            continue
        if in_json and (line in ("{", "}", "") or line[:1] in ' \t{}[]"'):
            continue
        in_json = False
        if not STEPS.match(line) and not line.startswith(REWRITTEN):
            result.append(line)
    return result


def without_files(text: list[str]) -> list[str]:
    """The text with one data file for each table, under the same name for all engines."""
    result: list[str] = []
    files: list[str] = []
    for line in text:
        if data := DATA.match(line):
            line = data[1][:NAME_CHARACTERS] + ".DATA"
        if FILE.match(line):
            files.append(line)
            continue
        result += sorted(set(files))
        files.clear()
        result.append(line)
    return result + sorted(set(files))


def plain(text: list[str]) -> list[str]:
    return without_files(without_estimates(without_ways(text)))


def classify(reference: bytes, subject: bytes, again: bytes | None = None, recorded: bytes | None = None) -> tuple[str, str]:
    """("same" | "estimates" | "unsteady" | "recorded" | "plan" | "order" | "different", the difference). `again` is the reference's
    output in another run, `recorded` the test's recorded result (hunks.py)."""
    if reference == subject:
        return "same", ""
    left, right = lines(reference), lines(subject)
    if left == right:
        return "same", ""
    plain_left, plain_right = plain(left), plain(right)
    if plain_left == plain_right:
        return "estimates", difference(left, right)
    others = [None if text is None else plain(lines(text)) for text in (again, recorded)]
    if kind := hunks.explained(plain_left, plain_right, *others):
        return kind, difference(plain_left, plain_right)
    bare_left, bare_right = without_plans(plain_left), without_plans(plain_right)
    kind = "plan" if bare_left == bare_right else "order" if sorted(bare_left) == sorted(bare_right) else "different"
    if kind == "different" and hunks.explained(bare_left, bare_right, *(text and without_plans(text) for text in others)):
        kind = "plan"
    return kind, difference(plain_left, plain_right)


def difference(left: list[str], right: list[str]) -> str:
    return "\n".join(difflib.unified_diff(left, right, "innodb", "teak", lineterm="", n=4)) + "\n"
