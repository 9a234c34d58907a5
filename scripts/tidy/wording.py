"""Words that comments and documents must not use, because readers must guess their meaning.

Checks the comments of Rust, C++, C, Java, shell, JavaScript, TOML and SQL, the comments and docstrings of Python,
the comments and the text of `echo` of the server's tests, and all text of text files and of Markdown files outside
of code blocks.
"""

import ast
import io
import re
import tokenize

from . import source_text

# (pattern, what to write)
WORDS = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in (
    (r"\b(?:anew|afresh)\b", "again"),
    (r"\bbesides?\b", "next to, with, also"),
    (r"\blikewise\b", "the same way"),
    (r"\bmeanwhile\b", "at the same time"),
    (r"\bof late\b", "recently"),
    (r"\bat once\b", "immediately, at the same time"),
    (r"\bnow and then\b", "at random, sometimes"),
    (r"\bbut for\b", "except"),
    (r"\bin vain\b", "unsuccessfully"),
    (r"\bseldom\b", "rarely"),
    (r"\bbeheld\b|\bheeds?\b|\bheed(?:ed|ing)\b", "respect"),
    (r"\breckon(?:s|ed|ing)?\b", "compute"),
    (r"\b(?:no|some|any|every)(?:body|one)\b|\bwhoever\b|\bwhom\b", "name the thread, transaction or session"),
    (r"\b(?:he|him|his|himself|she|her|hers|herself)\b", "name the thread, transaction or session"),
    (r"\b(?:told|tells)\b", "reports, returns, shows"),
    (r"\bhouse(?:s|keep(?:er|ers|ing))?\b|\bkeeps? house\b", "maintenance"),
    (r"\bbells?\b|\brung\b", "waker, notification"),
    (r"\bwish(?:es|ed)?\b", "request"),
    (r"\bdoom(?:s|ed)?\b", "abort as the victim"),
    (r"\bfates?\b|\bwhat became of\b", "status"),
    (r"\brooms?\b", "space, memory budget, reservation"),
    (r"\bborn\b", "created"),
    (r"\bgone\b", "dropped, lost, removed"),
    (r"\bg(?:ive|ives|ave|iven|iving) (?:it |them |its? \w+ )?up\b", "cancel"),
    (r"\blet(?:s|ting)? go\b", "release"),
    (r"\bg(?:o|oes|oing|one) on\b|\bwent on\b", "continue"),
    (r"\bgreatest\b", "max, highest"),
    (r"(?<!at )(?<!/// )(?<!// )\bleast\b(?! (?:recently|frequently|significant))", "min, lowest"),
    (r"\bcircles?\b", "cycle in the waits-for graph"),
    (r"\b(?:to|can|could|cannot) be had\b|\bnot to be had\b", "be acquired, be available"),
    (r"\b(?:lest|whence|thence|thereby|thereof|therein|hereby|nought|aught|ere|alike|thither|hither)\b", "a plain sentence"),
    (r", for (?:it|they|there|this|these|those) (?:is|has|are|have|was|were|may|can|must|will|would|does|do)\b", "because"),
    (r"\bmoods?\b|\bstor(?:y|ies) (?:of|that|in)\b", "configuration, trace"),
)]
CODE = {".rs", ".cc", ".h", ".c", ".java", ".js"}
FENCE = re.compile(r"^\s*(?:```|~~~)")
INLINE_CODE = re.compile(r"`[^`\n]*`")
# In a test of the server, `#` opens a comment only at the start of a line. A command of the test may begin with `--`.
TEST_PROSE = re.compile(r"\s*(?:(?:--)?\s*echo\s+(?P<echo>.*)|(?:#|--\s)(?P<comment>.*))$")
SQL_COMMENT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?P<comment>(?:^|(?<=\s))(?:--\s|\#).*)""")
TOML_COMMENT = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|(?P<comment>\#.*)""")


def shell_comments(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(r"(?:^|\s)#(?!\!).*", line)
        if match:
            yield number, match.group()


def test_prose(text):
    """Comments of the server's tests, and the text that they print."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := TEST_PROSE.match(line):
            yield number, match["echo"] or match["comment"] or ""


def comments_outside_of_strings(text, pattern):
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            if match["comment"]:
                yield number, match["comment"]


def python_comments(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node, clean=False):
            first = node.body[0].lineno
            for number, line in enumerate(node.body[0].value.value.splitlines()):
                yield first + number, line


def markdown_text(text):
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, line


def prose(name, text):
    """Yields (line number, text) of each line of comments or documentation."""
    suffix = "." + name.rpartition(".")[2]
    if suffix in CODE:
        yield from source_text.comments(text, rust=suffix == ".rs")
    elif suffix == ".py":
        yield from python_comments(text)
    elif suffix == ".sh" or name in ("Makefile", ".ci/run"):
        yield from shell_comments(text)
    elif suffix in (".test", ".inc"):
        yield from test_prose(text)
    elif suffix == ".sql":
        yield from comments_outside_of_strings(text, SQL_COMMENT)
    elif suffix == ".toml":
        yield from comments_outside_of_strings(text, TOML_COMMENT)
    elif suffix == ".txt":
        yield from enumerate(text.splitlines(), 1)
    elif suffix == ".md":
        yield from markdown_text(text)


def faults(name, text):
    for number, line in prose(name, text):
        line = INLINE_CODE.sub("", line)
        for pattern, advice in WORDS:
            for match in pattern.finditer(line):
                yield f"{name}:{number}: {match.group()!r}: write {advice}"
