"""Prints debian/copyright for a prepared source tree: debian/copyright.in, with a paragraph for each crate of vendor/ in the
place of @CRATES@. Fails if a crate has a licence whose text is not in debian/copyright.in: `python3 -m scripts.deb.copyright TREE`.
"""

import re
import sys
import tomllib
from pathlib import Path

# Names of SPDX, and those of Debian.
NAMES = {"MIT": "Expat", "BSD-3-Clause": "BSD-3-clause", "BSD-2-Clause": "BSD-2-clause", "LGPL-2.1-or-later": "LGPL-2.1+"}
HOLDER = re.compile(r"^\s*copyright\s+(?:\(c\)\s*|©\s*)?(.*\S)\s*$", re.IGNORECASE)


def licence(expression):
    """An SPDX expression as debian/copyright writes it."""
    text = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ").replace(" WITH LLVM-exception", "-WITH-LLVM-exception")
    words = [NAMES.get(word, word.lower() if word in ("OR", "AND") else word) for word in text.split()]
    words = [word.replace("-WITH-LLVM-exception", " with LLVM exception") for word in words]
    # A comma makes `and` apply to all alternatives before it.
    return " ".join(words).replace("( ", "").replace(" ) and", ", and").replace(" )", "")


def holders(crate, package):
    """The holders that the licences of a crate name, or its authors."""
    found = []
    for path in sorted(crate.iterdir()):
        if path.is_file() and re.match(r"(?:LICEN[SC]E|COPYING|COPYRIGHT)", path.name, re.IGNORECASE):
            for line in path.read_text(errors="replace").splitlines():
                match = HOLDER.match(line)
                # Not the sentences of licences, or their templates.
                if match and re.match(r"\[?\d{4}|The |Individual|[A-Z][a-z]+ [A-Z][a-z]+ <|Meta", match.group(1)) and "[yyyy]" not in line:
                    found.append(match.group(1))
    found = found or package.get("authors") or [f"the contributors of {package['name']}"]
    return list(dict.fromkeys(re.sub(r"[\[\]]", "", holder) for holder in found))


def paragraphs(vendor, known):
    for crate in sorted(vendor.iterdir()):
        package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
        if "license" not in package:
            sys.exit(f"error: {crate.name} does not state its licence")
        expression = licence(package["license"])
        unknown = {name for name in re.split(r",? (?:or|and) ", expression)} - known
        if unknown:
            sys.exit(f"error: debian/copyright.in lacks the licence of {crate.name}: {', '.join(sorted(unknown))}")
        lines = "\n           ".join(holders(crate, package))
        yield f"Files: vendor/{crate.name}/*\nCopyright: {lines}\nLicense: {expression}\n"


def main():
    tree = Path(sys.argv[1])
    text = (tree / "debian/copyright.in").read_text()
    # Paragraphs that begin with `License:` have texts.
    known = set(re.findall(r"(?:\A|\n\n)License: (.*)", text))
    print(text.replace("@CRATES@\n", "\n".join(paragraphs(tree / "vendor", known))), end="")


if __name__ == "__main__":
    main()
