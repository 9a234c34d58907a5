"""Comparing what a test printed on two engines, for scripts/suites.py."""

import difflib
import re

ENGINE = re.compile(r"\b(innodb|teak)\b", re.IGNORECASE)
# A plan's guesses: tab-separated EXPLAIN by its heading, vertical EXPLAIN, EXPLAIN FORMAT=JSON.
HEADING = re.compile(r"^id\tselect_type\ttable\t")
VERTICAL = re.compile(r"^ *(rows|filtered): [0-9.]+$")
JSON = re.compile(r'"(rows|filtered|r_rows|r_filtered|r_loops|cost|r_total_time_ms|selectivity_pct|r_[a-z_]+)": [0-9.]+')
GUESS = re.compile(r"^[0-9.]+(\|[0-9.]+%?)?( \([0-9.]+%\))?$")


def lines(text: bytes) -> list[str]:
    return [ENGINE.sub("ENGINE", line) for line in text.decode("utf-8", "surrogateescape").split("\n")]


def without_estimates(text: list[str]) -> list[str]:
    """The same output without the figures of rows and percentages in plans."""
    result, columns, width = [], [], 0
    for line in text:
        fields = line.split("\t")
        if HEADING.match(line):
            columns = [at for at, name in enumerate(fields) if name in ("rows", "filtered", "r_rows", "r_filtered")]
            width = len(fields)
        elif columns and len(fields) == width:
            for at in columns:
                if GUESS.match(fields[at]):
                    fields[at] = "#"
            line = "\t".join(fields)
        else:
            columns = []
            if VERTICAL.match(line):
                line = line.split(":")[0] + ": #"
            else:
                line = JSON.sub(r'"\1": #', line)
        result.append(line)
    return result


def classify(reference: bytes, subject: bytes) -> tuple[str, str]:
    """("same" | "estimates" | "different", the difference)."""
    left, right = lines(reference), lines(subject)
    if left == right:
        return "same", ""
    plain_left, plain_right = without_estimates(left), without_estimates(right)
    if plain_left == plain_right:
        return "estimates", difference(left, right)
    return "different", difference(plain_left, plain_right)


def difference(left: list[str], right: list[str]) -> str:
    return "\n".join(difflib.unified_diff(left, right, "innodb", "teak", lineterm="", n=4)) + "\n"
