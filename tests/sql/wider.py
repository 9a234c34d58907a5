"""Types that can represent every value of a column's type. Most changes to them are instant in Teak."""

import copy
import re

from .columns import INTEGERS
from .text import WIDTHS

TEXTS = ["TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"]
BLOBS = ["TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"]
KEY_BYTES_MAX = 700


def wider(draw, column, in_key):
    """A copy of the column with a wider type and pool; None if there is none. `in_key`: it must remain possible in keys."""
    changed = copy.copy(column)
    changed.pool = list(column.pool)
    kind = column.type.split("(")[0].split()[0]
    if "CURRENT" in column.default:
        return None  # its digits must be those of the type
    if kind in INTEGERS:
        return _integer(draw, changed, kind)
    if kind == "DECIMAL":
        return _decimal(draw, changed)
    if kind in ("TIME", "DATETIME", "TIMESTAMP"):
        return _temporal(draw, changed, kind)
    if kind in ("ENUM", "SET"):
        return _members(draw, changed, kind)
    if column.family in ("text", "bytes"):
        return _string(draw, changed, kind, in_key)
    return None


def _integer(draw, column, kind):
    wider_kinds = list(INTEGERS)[list(INTEGERS).index(kind) + 1:]
    if not wider_kinds:
        return None
    new = draw.choice(wider_kinds)
    column.type = column.type.replace(kind, new, 1)
    bits = INTEGERS[new]
    column.pool += [str(2**bits - 1)] if "UNSIGNED" in column.type else [str(-2**(bits - 1)), str(2**(bits - 1) - 1)]
    column.key_bytes = bits // 8
    if "UNSIGNED" in column.type and "ZEROFILL" not in column.type and bits > INTEGERS[kind] and draw.random() < 0.2:
        column.type = new
        column.pool[-1:] = ["-1", str(-2**(bits - 1))]
    return column


def _decimal(draw, column):
    precision, scale = map(int, re.search(r"\((\d+),(\d+)\)", column.type).groups())
    added = draw.choice([0, 1, 2, 8, 9, 20])
    new_scale = min(38, scale + draw.choice([0, 1, 2, 8, 9, 20]), 65 - (precision - scale))
    new_precision = min(65, precision - scale + added + new_scale)
    column.type = column.type.replace(f"({precision},{scale})", f"({new_precision},{new_scale})")
    column.pool.append("0." + "0" * (new_scale - 1) + "1" if new_scale else "9" * new_precision)
    return column


def _temporal(draw, column, kind):
    if column.length == 6:
        return None
    old, column.length = column.length, draw.randint(column.length + 1, 6)
    column.type = f"{kind}({column.length})"
    if old == 0:
        column.pool += [value[:-1] + ".5'" for value in column.pool[:3] if ":" in value and "." not in value]
    return column


def _members(draw, column, kind):
    members = column.type.count(",") + 1
    added = draw.choice([1, 2, 3, 60, 260]) if kind == "ENUM" else min(draw.choice([1, 4, 5, 12, 30, 60]), 64 - members)
    if added <= 0:
        return None
    names = [f"'w{members + number}'" for number in range(added)]
    column.type = f"{column.type[:-1]},{','.join(names)})"
    column.pool += names[-1:]
    return column


def _string(draw, column, kind, in_key):
    binary = column.family == "bytes"
    large = BLOBS if binary else TEXTS
    if kind in large:
        if large.index(kind) == 3:
            return None
        column.type = column.type.replace(kind, draw.choice(large[large.index(kind) + 1:]), 1)
        return column
    width = 1 if binary else WIDTHS.get(column.charset, 1)
    if not in_key and draw.random() < 0.3 and column.length * width <= 65535 and not column.default:
        column.type, column.key_bytes = draw.choice(large[1:] if column.length * width > 255 else large), 0
        return column
    sized = ["BINARY", "VARBINARY"] if binary else ["CHAR", "VARCHAR"]
    new = draw.choice(sized) if kind == sized[0] and not in_key else kind
    column.length = min(255, column.length + draw.choice([0, 1, 3, 8, 40])) if new == sized[0] else column.length + draw.choice([0, 1, 10, 300])
    column.key_bytes = column.length * width + 2
    if in_key and column.key_bytes > KEY_BYTES_MAX:
        return None
    column.type = f"{new}({column.length})"
    return column
