"""Messages that the page for troubleshooting quotes: the program must contain them.

A quotation is a code span that contains `...`, or one of at least three words in the first column of a table of messages. Words
with `...` or a digit stand for what the program inserts. Each part of at least two words must occur in a string of the sources."""

import re

PAGE = "docs/user/troubleshooting.md"
SOURCE = re.compile(r"(?:crates/[^/]+/src/.*\.rs|plugin/.*\.(?:cc|h))$")
HEADERS = {"message", "error", "text"}
CODE = re.compile(r"`([^`\n]+)`")
PREFIX = re.compile(r"^TEAK: (?:cannot start: )?")
INSERTED = re.compile(r"\S*(?:\.\.\.|\d)\S*")

# Messages of the server.
SERVER_TEXTS = {
    "Plugin 'TEAK' is of maturity level experimental while the server is stable",
    "Loading of experimental plugin ha_teak.so is prohibited by --plugin-maturity",
    "API version for STORAGE ENGINE plugin TEAK not supported by this version of the server",
    "Cannot enable tc-log at run-time. XA features of TEAK are disabled",
    "Got error ... from TEAK",
    "Table ... doesn't exist in engine",
    "Table storage engine 'TEAK' does not support the create option ...",
    "... BINLOG_FORMAT = STATEMENT ...",
}


def quotations(page):
    """The messages that the page quotes."""
    header = None
    for line in page.splitlines():
        first = None
        if line.startswith("|"):
            cell = line.split("|")[1].strip()
            header = cell if header is None else header
            first = cell if header in HEADERS else ""
        else:
            header = None
        for text in CODE.findall(line):
            is_message = first is not None and f"`{text}`" in first and len(text.split()) > 2
            if "..." in text or is_message:
                yield text


def parts(message):
    """The parts of a message that a string of the program must contain."""
    found = (part.strip() for part in INSERTED.split(PREFIX.sub("", message)))
    return [part for part in found if len(part.split()) > 1]


def joined(source):
    """A source with strings that are continued on the next line as one."""
    source = re.sub(r"\\\n\s*", "", source)
    return re.sub(r'"\s*\n\s*"', "", source)


def unknown(page, sources):
    """Pairs of a quoted message and its part that no source contains."""
    text = "\n".join(map(joined, sources))
    for message in quotations(page):
        if message not in SERVER_TEXTS:
            yield from ((message, part) for part in parts(message) if part not in text)


def faults(root, names):
    """A line for each quoted message that the program does not contain."""
    sources = [(root / name).read_text() for name in names if SOURCE.match(name)]
    for message, part in unknown((root / PAGE).read_text(), sources):
        yield f"{PAGE}: quotes `{message}`, but the sources do not contain `{part}`"
