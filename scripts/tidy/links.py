"""Relative links of Markdown pages: the file must exist and, after `#`, a heading of that name in it."""

import re

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6}\s+(.*)$", re.M)


def anchor(heading):
    """The anchor that a heading gets: lower case, without punctuation, spaces as hyphens."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    return {anchor(heading) for heading in HEADING.findall(FENCE.sub("", text))}


def faults(root, names):
    """A line for each broken link of the Markdown files."""
    pages = {name: (root / name).read_text() for name in names if name.endswith(".md")}
    for name, text in pages.items():
        # Links in code are examples.
        for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, wanted = target.partition("#")
            found = (root / name).parent / path if path else root / name
            if not found.exists():
                yield f"{name}: links to {target}, which does not exist"
            elif wanted and found.suffix == ".md" and wanted not in anchors(found.read_text()):
                yield f"{name}: links to {target}, but the page has no such heading"
