"""Shrinks the statements that led to a difference to a minimal list of short statements that still shows it."""

import re

from tests.harness.wire import Lost


def kind(why):
    """The kind of a difference (error, rows, warnings, crash), which must not change during shrinking."""
    found = re.findall(r"error \d+", why)
    if found:
        return " ".join(found)
    return re.sub(r"[\d].*", "", why.split(":")[0])[:20]


class Shrinker:
    """`attempt(statements)` runs the statements in new databases and returns the `Difference`, or None."""

    def __init__(self, attempt, tries=1500):
        self.attempt, self.left = attempt, tries

    def holds(self, statements, wanted):
        if self.left <= 0:
            return None
        self.left -= 1
        try:
            found = self.attempt(statements)
        except Lost:
            return None
        if found is not None and kind(found.why) == wanted:
            return statements[:found.number + 1]
        return None

    def shrink(self, statements):
        found = self.attempt(statements)
        if found is None:
            return None
        wanted = kind(found.why)
        statements = statements[:found.number + 1]
        statements = self.fewer(statements, wanted)
        statements = self.shorter(statements, wanted)
        return self.fewer(statements, wanted)

    def fewer(self, statements, wanted):
        size = max(1, len(statements) // 2)
        while size:
            at = len(statements) - size
            while at > -size:
                start = max(at, 0)
                kept = self.holds(statements[:start] + statements[start + size:], wanted)
                if kept is not None:
                    statements = kept
                    at = min(at, len(statements))
                at -= size
            size //= 2
        return statements

    def shorter(self, statements, wanted):
        """Removes parts of statements; invalid SQL fails on both engines, so such attempts are discarded."""
        at = len(statements) - 1
        while at >= 0:
            changed = True
            while changed and at < len(statements):
                changed = False
                for text in variants(statements[at].text):
                    old = statements[at]
                    new = old.with_text(text)
                    kept = self.holds(statements[:at] + [new] + statements[at + 1:], wanted)
                    if kept is not None and at < len(kept):
                        statements, changed = kept, True
                        break
            at -= 1
        return self.columns(statements, wanted)

    def columns(self, statements, wanted):
        """Removes columns from every statement that names them."""
        names = sorted(set(re.findall(r"\b(?:c|g|id|r)\d+\b", " ".join(statement.text for statement in statements))))
        for name in names:
            changed = [statement.with_text(without_column(statement.text, name)) for statement in statements]
            kept = self.holds(changed, wanted)
            if kept is not None:
                statements = kept
        return statements


def lists(text):
    """The comma-separated lists of a statement, in parentheses and at the top level. Each is a list of the (start, end)
    of its items."""
    found, quote, at = [], False, 0
    starts = [[0]]
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quote:
            at += 2
            continue
        if letter == "'":
            quote = not quote
        elif not quote:
            if letter == "(":
                starts.append([at + 1])
            elif letter == ")" and len(starts) > 1:
                items = starts.pop()
                found.append([*zip(items, [start - 1 for start in items[1:]] + [at])])
            elif letter == ",":
                starts[-1].append(at + 1)
        at += 1
    items = starts[0]
    found.append([*zip(items, [start - 1 for start in items[1:]] + [len(text)])])
    return [items for items in found if len(items) > 1]


def variants(text):
    for items in lists(text):
        # Does not shorten top-level lists: without a term of GROUP BY or ORDER BY the result may be undefined.
        if text.startswith(("SELECT", "HANDLER", "EXECUTE")) and re.search(r" (GROUP|ORDER) BY .*", text) and items[0][0] == 0:
            continue
        count = len(items)
        size = count // 2
        while size:
            for first in range(0, count, size):
                last = min(first + size, count) - 1
                if first == 0 and last == count - 1:
                    continue
                if first == 0:
                    yield text[:items[0][0]] + text[items[last + 1][0]:]
                else:
                    yield text[:items[first][0] - 1] + text[items[last][1]:]
            size //= 2
    for pattern in (r" WHERE .*", r" LIMIT \d+( OFFSET \d+)?", r" FORCE INDEX \(\w+\)", r" RETURNING .*", r" PARTITION BY .*",
                    r" ON DUPLICATE KEY UPDATE .*", r" IGNORE", r" DESC", r" CHARACTER SET \w+ COLLATE \w+", r" DEFAULT ('[^']*'|[\w.-]+)", r" INVISIBLE",
                    r" (AND|OR) [^()]*?(?=\)| AND | OR |$)", r", ALGORITHM=COPY", r" NOT NULL", r" UNSIGNED", r" ZEROFILL", r" COMPRESSED", r" DISTINCT"):
        for match in re.finditer(pattern, text):
            yield text[:match.start()] + text[match.end():]


def without_column(text, name):
    """The statement without the column in lists of names, and without its values."""
    if text.startswith("CREATE TABLE"):
        return re.sub(rf"\((?:{name} [^,()]*(?:\([^()]*\)[^,()]*)*), |, {name} [^,()]*(?:\([^()]*\)[^,()]*)*(?=[,)])",
                      lambda match: "(" if match.group().startswith("(") else "", text, count=1)
    found = re.match(r"((?:INSERT|REPLACE)[^(]*)\(([^()]*)\) VALUES ", text)
    if found:
        names = [each.strip() for each in found.group(2).split(",")]
        if name in names:
            place = names.index(name)
            rest = text[found.end():]
            for items in reversed([items for items in lists(rest) if len(items) == len(names)]):
                start, end = items[place]
                rest = rest[:start] + rest[end + 1:] if place == 0 else rest[:start - 1] + rest[end:]
            return f"{found.group(1)}({', '.join(each for each in names if each != name)}) VALUES {rest}"
        return text
    return re.sub(rf"\b{name}\b, |, {name}\b", "", text)


def script(statements):
    """A script that shows the difference; the engine is the session's default."""
    return "\n".join(("" if not statement.session else "-- in another session: ") + statement.text.replace("{db}", "test").replace("{run}", "/tmp").replace("{engine}", "TEAK") + ";"
                     + (f"  -- prepared, and executed with {statement.parameters}" if statement.parameters else "") for statement in statements)
