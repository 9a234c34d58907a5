"""Cycles between the modules of a crate, between crates, and between the plugin's folders or files.

1. The modules of a crate are its files. The code inside an inline `mod` belongs to its file; code under `#[cfg(test)]` is left out.
2. Every path (`use crate::x::Y`, `super::Y`, `x::y()`, also in groups and globs) is resolved, through imports and re-exports, to
   the file that defines the name. That file is what the module depends on, and not the files that re-export the name.
3. `mod child;` and `pub use child::Name` are no dependency of the parent on the child; the parent's own use of the name is.
4. Modules that depend on each other, directly or through others, are a strongly connected component: one cycle.

Method calls are not resolved: a method defined in another file's `impl` block is not seen.
"""

import re
import sys
import tomllib
from pathlib import Path

from . import source_text

ROOT = Path(__file__).resolve().parents[2]
TOKEN = re.compile(r"[A-Za-z_]\w*|::|\$crate\b|[^\s\w]|\d\w*")
DEFINING = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}
ITEM_WORDS = DEFINING | {"mod", "use", "impl", "unsafe", "async", "extern", "macro_rules", "let"}
IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")


def components(edges):
    """The strongly connected components with more than one node, each sorted (Tarjan's algorithm)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10000))
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found)


# ---- one crate -------------------------------------------------------------------------------------------------------


class Module:
    """A module. `file` is the module of its source file: itself, or an enclosing module if it is inline."""

    def __init__(self, name, parent, file=None):
        self.name, self.parent, self.file = name, parent, file or self
        self.children, self.definitions, self.imports, self.globs = {}, set(), {}, []
        self.uses, self.paths, self.identifiers = [], [], {}

    def path(self):
        return self.name if self.parent is None or self.parent.parent is None else f"{self.parent.path()}::{self.name}"

    def root(self):
        return self if self.parent is None else self.parent.root()

    def descends_from(self, other):
        return self is other or (self.parent is not None and self.parent.descends_from(other))


class Parser:
    """Reads one file's tokens into a module; `read_child` is called with (module, name) for each `mod name;`."""

    def __init__(self, text, read_child):
        text = source_text.code(text)
        lines = source_text.Lines(text)
        found = list(TOKEN.finditer(text))
        self.tokens = [match.group() for match in found] + ["", "", ""]
        self.lines = [lines.number(match.start()) for match in found] + [0, 0, 0]
        self.read_child = read_child

    def close(self, at):
        """Position after the bracket that closes the one at `at`."""
        depth = 0
        while self.tokens[at]:
            depth += (self.tokens[at] in "([{") - (self.tokens[at] in ")]}")
            at += 1
            if depth == 0:
                break
        return at

    def end_of_item(self, at):
        """Position after the item, field or statement at `at`; including further attributes."""
        while self.tokens[at] == "#":
            at = self.close(at + 1)
        words = [self.tokens[at], self.tokens[at + 1]]
        if words[0] == "pub":
            after = self.close(at + 1) if words[1] == "(" else at + 1
            words = [self.tokens[after]]
        in_use = "use" in words
        is_item = any(word in ITEM_WORDS for word in words[:1])
        while self.tokens[at]:
            token = self.tokens[at]
            if token == ";" or (token == "," and not is_item):
                return at + 1
            if token in "}])":
                return at
            if token in "([{":
                at = self.close(at)
                if token == "{" and not in_use:
                    return at
            else:
                at += 1
        return at

    def module(self, module, at=0):
        """Reads items up to the closing brace of the module; returns the position after it."""
        depth = 0
        while token := self.tokens[at]:
            following = self.tokens[at + 1]
            if token == "#" and following in "[!":
                inner = following == "!"
                end = self.close(at + 1 + inner)
                if is_test("".join(self.tokens[at + 1 + inner:end])):
                    end = len(self.tokens) - 3 if inner else self.end_of_item(end)
                at = end
            elif token == "mod" and IDENTIFIER.match(following) and self.tokens[at + 2] in ";{" and depth == 0:
                at = self.child(module, following, at + 2)
            elif token == "use" and (following == "::" or following == "{" or following == "*" or IDENTIFIER.match(following)):
                at = self.use(module, at)
            elif token == "macro_rules" and following == "!":
                module.definitions.add(self.tokens[at + 2])
                module.root().definitions_of_macros[self.tokens[at + 2]] = module
                at += 3
            elif depth == 0 and token in DEFINING and IDENTIFIER.match(following):
                name = self.tokens[at + 2] if following in ("mut", "fn", "unsafe", "async") else following
                if following not in ("fn", "unsafe", "async"):
                    module.definitions.add(name)
                at += 2
            elif token == "$" and following == "crate" or IDENTIFIER.match(token):
                at = self.path(module, at)
            else:
                if token == "}" and depth == 0:
                    return at + 1
                depth += (token == "{") - (token == "}")
                at += 1
        return at

    def child(self, module, name, at):
        if self.tokens[at] == "{":
            inner = module.children[name] = Module(name, module, module.file)
            return self.module(inner, at + 1)
        self.read_child(module, name)
        return at + 1

    def path(self, module, at):
        """A path in code: names joined by `::`; turbofish arguments end it."""
        line, segments = self.lines[at], []
        if self.tokens[at] == "$":
            at += 1
        member = at > 0 and self.tokens[at - 1] == "."
        absolute = at > 0 and self.tokens[at - 1] == "::"
        while IDENTIFIER.match(self.tokens[at]):
            segments.append(self.tokens[at])
            at += 1
            if self.tokens[at] != "::" or not IDENTIFIER.match(self.tokens[at + 1]):
                break
            at += 1
        if not absolute and not member:
            module.identifiers.setdefault(segments[0], line)
            if len(segments) > 1:
                module.paths.append((segments, line))
        return at

    def use(self, module, at):
        """A `use` declaration: its tree is flattened to paths, each with the name that it binds."""
        before = at - 1
        if self.tokens[before] == ")":
            while before > 0 and self.tokens[before] != "(":
                before -= 1
            before -= 1
        public, line = before >= 0 and self.tokens[before] == "pub", self.lines[at]
        at = self.tree(module, at + 1, [], public, line)
        return at + (self.tokens[at] == ";")

    def tree(self, module, at, prefix, public, line):
        segments = list(prefix)
        while True:
            token = self.tokens[at]
            if token == "{":
                at += 1
                while self.tokens[at] and self.tokens[at] != "}":
                    at = self.tree(module, at, segments, public, self.lines[at])
                    at += self.tokens[at] == ","
                return at + 1
            if token == "*":
                module.globs.append((segments, public, line))
                return at + 1
            if token == "::" or token == "$":
                at += 1
            elif IDENTIFIER.match(token):
                if token == "self" and segments:
                    name = segments[-1]
                else:
                    segments, name = [*segments, token], token
                at += 1
                if self.tokens[at] == "as":
                    name, at = self.tokens[at + 1], at + 2
                if self.tokens[at] != "::":
                    module.imports[name] = segments
                    module.uses.append((name, segments, public, line))
                    return at
            else:
                return at


def is_test(attribute):
    """Whether `[cfg(...)]` restricts an item to tests."""
    return re.match(r"\[cfg\((?:test|all\((?:.*,)?test(?:,.*)?\))\)\]$", attribute) is not None


class Crate:
    """The modules below one crate root (`lib.rs`, `main.rs`) and their dependencies."""

    def __init__(self, root_file):
        self.files = {}
        self.root = Module("lib" if root_file.stem == "lib" else root_file.stem, None)
        self.root.definitions_of_macros = {}
        self.read(self.root, root_file, root_file.parent)

    def read(self, module, file, folder):
        self.files[module] = file

        def read_child(parent, name):
            child = parent.children[name] = Module(name, parent)
            inline, up = [], parent
            while up.file is not up:
                inline.insert(0, up.name)
                up = up.parent
            below = folder.joinpath(*inline)
            plain = below / f"{name}.rs"
            self.read(child, plain if plain.exists() else below / name / "mod.rs", below / name)

        Parser(file.read_text(), read_child).module(module)

    def edges(self):
        """{module: {module it depends on: (line, name)}}, modules by path."""
        found = {}
        for module in self.modules(self.root):
            into = found.setdefault(module.file.path(), {})
            for target, line, name in self.dependencies(module):
                if target is not None and target.file is not module.file:
                    into.setdefault(target.file.path(), (line, name))
        return found

    def modules(self, module):
        yield module
        for child in module.children.values():
            yield from self.modules(child)

    def dependencies(self, module):
        for name, segments, public, line in module.uses:
            target, is_module = self.resolve(module, segments)
            if target is None or is_module:
                continue
            if public and target.descends_from(module):
                if name in module.identifiers:
                    yield target, module.identifiers[name], name
            else:
                yield target, line, "::".join(segments)
        for segments, line in module.paths:
            target, is_module = self.resolve(module, segments, local=True)
            if not is_module:
                yield target, line, "::".join(segments)
        for segments, public, line in module.globs:
            target, is_module = self.resolve(module, segments)
            if target is None:
                continue
            if not is_module:
                yield target, line, "::".join(segments) + "::*"
                continue
            for name, used in module.identifiers.items():
                if name not in module.definitions and name not in module.imports:
                    definer = self.lookup(target, name, set())
                    if definer is not None and not definer[1]:
                        yield definer[0], used, name

    def resolve(self, module, segments, local=False):
        """(defining module, whether the path names a module itself); (None, False) outside of the crate."""
        return self.walk(module, segments, set(), local) or (None, False)

    def walk(self, module, segments, seen, local=False):
        first, rest = segments[0], segments[1:]
        if first == "crate":
            at = self.root
        elif first == "self":
            at = module
        elif first == "super":
            at = module.parent or module
        elif found := self.lookup(module, first, seen, with_globs=local):
            if not found[1]:
                return found
            at = found[0]
        else:
            return None
        while rest and rest[0] == "super":
            at, rest = at.parent or at, rest[1:]
        for position, name in enumerate(rest):
            found = self.lookup(at, name, seen)
            if found is None:
                # The name is generated by a macro. If the path left the file, the module is the best answer.
                return at, False
            at, is_module = found
            if not is_module:
                return at, False
        return at, True

    def lookup(self, module, name, seen, with_globs=True):
        """The module that defines `module::name`, or that has this name, resolved through imports; None if it is not in
        this crate."""
        if (module, name) in seen:
            return None
        seen = seen | {(module, name)}
        if name in module.children:
            return module.children[name], True
        if name in module.definitions:
            return module, False
        if module is self.root and name in self.root.definitions_of_macros:
            return self.root.definitions_of_macros[name], False
        if name in module.imports:
            return self.walk(module, module.imports[name], seen)
        for segments, _, _ in module.globs if with_globs else ():
            target = self.walk(module, segments, seen)
            if target and target[1] and (found := self.lookup(target[0], name, seen)):
                return found
        return None


# ---- the repository --------------------------------------------------------------------------------------------------


def module_edges(root=ROOT):
    """Returns {(crate, target): edges} for every crate root of the workspace."""
    found = {}
    for folder in sorted(path.parent for path in (root / "crates").glob("*/Cargo.toml")):
        roots = [file for name in ("lib.rs", "main.rs") if (file := folder / "src" / name).exists()]
        for file in [*roots, *sorted((folder / "src" / "bin").glob("*.rs"))]:
            name = folder.name if file.stem == "lib" or len(roots) == 1 else f"{folder.name}({file.stem})"
            found[name] = Crate(file).edges()
    return found


def crate_edges(root=ROOT):
    """Dependencies between the workspace's crates, without dev-dependencies."""
    manifests = [tomllib.loads(path.read_text()) for path in sorted((root / "crates").glob("*/Cargo.toml"))]
    names = {manifest["package"]["name"] for manifest in manifests}
    found = {}
    for manifest in manifests:
        tables = [manifest, *manifest.get("target", {}).values()]
        used = {name for table in tables for kind in ("dependencies", "build-dependencies") for name in table.get(kind, {})}
        found[manifest["package"]["name"]] = {name: (0, "Cargo.toml") for name in used & names}
    return found


def include_edges(root=ROOT, by_folder=True):
    """Includes of the plugin: between its folders, or between its files."""
    plugin, found = root / "plugin", {}
    for file in sorted(path for ending in ("*.cc", "*.h") for path in plugin.rglob(ending)):
        inside = file.relative_to(plugin)
        if inside.parts[0] == "tests":
            continue
        name = str(inside.parent) if by_folder else str(inside)
        into = found.setdefault(name, {})
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            for base in (plugin, file.parent) if match else ():
                if (base / match.group(1)).is_file():
                    target = (base / match.group(1)).resolve().relative_to(plugin.resolve())
                    other = str(target.parent) if by_folder else str(target)
                    if other != name:
                        into.setdefault(other, (number, f"{inside} includes {match.group(1)}"))
                    break
    return found


def all_edges(root=ROOT):
    graphs = module_edges(root)
    graphs["crates"] = crate_edges(root)
    graphs["plugin folders"] = include_edges(root)
    graphs["plugin files"] = include_edges(root, by_folder=False)
    return graphs


def faults(graphs):
    """One line per cycle."""
    for name, edges in sorted(graphs.items()):
        for cycle in components(edges):
            yield f"a cycle, {name}: {' '.join(cycle)} (python3 -m scripts.tidy.module_cycles shows its dependencies)"


def main():
    """Prints every cycle with its dependencies."""
    graphs = all_edges()
    for name, edges in sorted(graphs.items()):
        for cycle in components(edges):
            print(f"{name}: {' '.join(cycle)}")
            for member in cycle:
                for other in cycle:
                    if other in edges[member]:
                        line, what = edges[member][other]
                        print(f"    {member} -> {other}   line {line}: {what}")


if __name__ == "__main__":
    main()
