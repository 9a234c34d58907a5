"""Source text of Rust and C++ without comments and literals, and the length of each function in it.

The parsing is approximate: it follows braces and keywords, and resolves no macros.
"""

import re
from bisect import bisect_right

RUST = re.compile(r"""
    (?P<comment>//[^\n]*|/\*)
  | (?P<string>\b(?:b|c|br|cr|r)?(?P<hashes>\#*)"|")
  | (?P<char>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'\n])')
  | (?P<lifetime>'\w+)
""", re.VERBOSE)
CPP = re.compile(r"""
    (?P<comment>//[^\n]*|/\*)
  | (?P<raw>R"(?P<tag>[^()\s\\]*)\()
  | (?P<string>")
  | (?P<number>\b\d[\w.']*)
  | (?P<char>'(?:\\.[^']*|[^\\'\n])')
""", re.VERBOSE)


def _end_of_comment(text, start, nested):
    depth, at = 1, start + 2
    while depth and at < len(text):
        if text.startswith("*/", at):
            depth, at = depth - 1, at + 2
        elif nested and text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        else:
            at += 1
    return at


def _end_of_string(text, at):
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _literals(text, rust):
    """Yields (start, end, is_comment) of each comment and literal, in order."""
    pattern, at = (RUST if rust else CPP), 0
    while match := pattern.search(text, at):
        found, start, at = match.group(), match.start(), match.end()
        if match["comment"]:
            if found == "/*":
                at = _end_of_comment(text, start, nested=rust)
            yield start, at, True
        elif rust and match["string"]:
            raw = "r" in found.split('"')[0]
            if match["hashes"] and not raw:
                at = start + 1
                continue
            if raw:
                end = text.find('"' + match["hashes"], at)
                at = len(text) if end < 0 else end + 1 + len(match["hashes"])
            else:
                at = _end_of_string(text, at)
            yield start, at, False
        elif not rust and match["raw"]:
            end = text.find(")" + match["tag"] + '"', at)
            at = len(text) if end < 0 else end + len(match["tag"]) + 2
            yield start, at, False
        elif match["string"]:
            at = _end_of_string(text, at)
            yield start, at, False
        elif match["char"]:
            yield start, at, False


def code(text, rust=True):
    """`text` with every comment and literal replaced by spaces. Line breaks remain, so positions and line numbers do
    not change."""
    parts, at = [], 0
    for start, end, _ in _literals(text, rust):
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start:end])]
        at = end
    parts.append(text[at:])
    return "".join(parts)


def comments(text, rust=True):
    """Yields (line, text) of each line of each comment."""
    for start, end, is_comment in _literals(text, rust):
        if is_comment:
            line = text.count("\n", 0, start) + 1
            for number, words in enumerate(text[start:end].splitlines()):
                yield line + number, words


class Lines:
    """Line numbers of positions in a text."""

    def __init__(self, text):
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def number(self, position):
        return bisect_right(self.starts, position)


def matching_brace(text, opening):
    """Position of the brace that closes the one at `opening`, or the end of the text."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def rust_functions(text):
    """Yields (name, first line, lines) of each `fn` with a body."""
    text = code(text)
    lines = Lines(text)
    for match in re.finditer(r"\bfn\s+(\w+)", text):
        body = re.compile(r"[;{]|\[[^\]]*\]").search(text, match.end())
        while body and body.group().startswith("["):
            body = re.compile(r"[;{]|\[[^\]]*\]").search(text, body.end())
        if body and body.group() == "{":
            first = lines.number(match.start())
            yield match.group(1), first, lines.number(matching_brace(text, body.start())) - first + 1


def cpp_functions(text):
    """Yields (name, first line, lines) of each function body outside of other functions."""
    text = code(text, rust=False)
    text = re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    lines, at, head = Lines(text), 0, 0
    while match := re.compile(r"[;{}]").search(text, at):
        at = match.end()
        if match.group() == "{":
            before = text[head:match.start()]
            name = re.search(r"([\w:~]+|operator\s*\S+)\s*\(", before)
            container = re.match(r"\s*(?:template\s*<[^{]*>\s*)?(?:extern|namespace|enum|union|(?:class|struct)\s+[\w:]+\s*(?:final\s*)?(?::[^(]*)?$)", before)
            if name and not container and not re.search(r"(?<![=!<>])=(?!=)", before.split("(")[0]):
                first = lines.number(head + len(before) - len(before.lstrip()))
                at = matching_brace(text, match.start()) + 1
                yield name.group(1), first, lines.number(at - 1) - first + 1
            elif "=" in before:
                at = matching_brace(text, match.start()) + 1
        head = at
