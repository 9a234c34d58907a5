"""Comparing what a test printed on two engines, for scripts/suites.py.

The answer is the first that fits: equal; equal but for figures that an engine estimates or measures of itself; but for
plans and what counts their steps; but for the order of lines as well; different."""

import difflib
import re

# From the beginning of the path alone: tried from each letter of a long line, it takes minutes.
TREE = re.compile(r"(?<!\S)\S*/tree-\w+/")
ENGINE = re.compile(r"\b(innodb|teak)\b", re.IGNORECASE)
# Tab-separated EXPLAIN by its heading, vertical EXPLAIN, EXPLAIN and ANALYZE FORMAT=JSON.
PLAN = re.compile(r"^id\tselect_type\ttable\t")
PLAN_FIGURES = {"rows", "filtered", "r_rows", "r_filtered"}
VERTICAL = re.compile(r"^ *(rows|filtered): [0-9.]+$")
JSON = re.compile(r'"(rows|filtered|cost|selectivity_pct|r_[a-z_]+)": [0-9.]+')
# SHOW INDEX, SHOW TABLE STATUS, INFORMATION_SCHEMA.
FIGURES = {"cardinality", "data_length", "index_length", "avg_row_length", "max_data_length", "data_free", "table_rows"}
STATUS_FIGURES = FIGURES | {"rows"}
NAMES = re.compile(r"^[\w()@.*]+(\t[\w()@.* ]+)*$")
FIGURE = re.compile(r"^(NULL|[0-9.]+(\|[0-9.]+%?)?( \([0-9.]+%\))?)$")
# What says how a plan worked.
STEPS = re.compile(r"^(Handler_|Last_query_cost|Select_|Sort_|Created_tmp)", re.IGNORECASE)
REWRITTEN = "Note\t1003\t"


def lines(text: bytes) -> list[str]:
    return ENGINE.sub("ENGINE", TREE.sub("TREE/", text.decode("utf-8", "surrogateescape"))).split("\n")


def figures_of(heading: list[str]) -> list[int]:
    """The columns of a table that hold figures, when this line is its heading."""
    names = [name.lower() for name in heading]
    if names[:3] == ["id", "select_type", "table"]:
        wanted = PLAN_FIGURES
    else:
        wanted = STATUS_FIGURES if "row_format" in names else FIGURES
    return [at for at, name in enumerate(names) if name in wanted]


def without_estimates(text: list[str]) -> list[str]:
    """The same without estimated rows and percentages, cardinalities, sizes."""
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
            line = line.split(":")[0] + ": #" if VERTICAL.match(line) else JSON.sub(r'"\1": #', line)
        result.append(line)
    return result


def without_plans(text: list[str]) -> list[str]:
    """The same without plans."""
    result, width, in_json = [], 0, False
    for line in text:
        if PLAN.match(line):
            width = line.count("\t")
            continue
        if width and line.count("\t") == width:
            continue
        width = 0
        if line in ("EXPLAIN", "ANALYZE") or line.startswith("QUERY\tTRACE"):
            in_json = True
            continue
        if in_json and (line in ("{", "}", "") or line[:1] in ' \t{}[]"'):
            continue
        in_json = False
        if not STEPS.match(line) and not line.startswith(REWRITTEN):
            result.append(line)
    return result


def classify(reference: bytes, subject: bytes) -> tuple[str, str]:
    """("same" | "estimates" | "plan" | "order" | "different", the difference)."""
    if reference == subject:
        return "same", ""
    left, right = lines(reference), lines(subject)
    if left == right:
        return "same", ""
    plain_left, plain_right = without_estimates(left), without_estimates(right)
    if plain_left == plain_right:
        return "estimates", difference(left, right)
    bare_left, bare_right = without_plans(plain_left), without_plans(plain_right)
    kind = "plan" if bare_left == bare_right else "order" if sorted(bare_left) == sorted(bare_right) else "different"
    return kind, difference(plain_left, plain_right)


def difference(left: list[str], right: list[str]) -> str:
    return "\n".join(difflib.unified_diff(left, right, "innodb", "teak", lineterm="", n=4)) + "\n"
