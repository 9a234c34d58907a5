"""Tests of the repository's checks: `python3 -m unittest scripts.tidy.test_tidy`."""

import tempfile
import unittest
from pathlib import Path

from . import links, messages, source_text, wording
from .__main__ import undeclared_tests
from .module_cycles import Crate, components, crate_edges, faults, include_edges


class Messages(unittest.TestCase):
    PAGE = "| message | cause |\n|---|---|\n| `TEAK: table ... is lost for 3 days` | `not quoted ever` |\n\nSee `other ... of this`."

    def unknown(self, *sources):
        return [part for _, part in messages.unknown(self.PAGE, sources)]

    def test_parts_between_what_is_inserted(self):
        self.assertEqual(self.unknown(), ["is lost for", "of this"])
        self.assertEqual(self.unknown('format!("table {name} is lost for {days} days")', 'f(" of this")'), [])

    def test_strings_that_are_continued(self):
        self.assertEqual(self.unknown('"{name} is \\\n     lost for {days}"', 'f("of"\n  " this")'), [])


class CrateCase(unittest.TestCase):
    def edges(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / "src" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return {name: set(into) for name, into in Crate(Path(folder) / "src" / "lib.rs").edges().items()}


class ModuleCycles(CrateCase):
    def test_two_files_that_import_each_other(self):
        edges = self.edges({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B; pub struct A;",
                            "b.rs": "use crate::a::A; pub struct B;"})
        self.assertEqual(components(edges), [["a", "b"]])

    def test_a_re_export_leads_to_the_defining_file(self):
        edges = self.edges({"lib.rs": "mod a; mod b; pub use a::A; pub use crate::b::{B, b as other};",
                            "a.rs": "use crate::{B, other}; pub struct A;", "b.rs": "pub struct B; pub fn b() {}"})
        self.assertEqual(edges, {"lib": set(), "a": {"b"}, "b": set()})

    def test_a_parent_that_only_declares_and_re_exports(self):
        edges = self.edges({"lib.rs": "pub mod x;", "x.rs": "mod y; pub use self::y::Y; pub(crate) use y::made; pub struct X;",
                            "x/y.rs": "use super::X; pub struct Y; pub fn made() -> X { X }"})
        self.assertEqual(components(edges), [])
        self.assertEqual(edges["x::y"], {"x"})

    def test_a_parent_that_uses_what_it_re_exports(self):
        edges = self.edges({"lib.rs": "pub mod x;", "x.rs": "mod y; pub use y::Y; pub struct X(Y);",
                            "x/y.rs": "use super::X; pub struct Y;"})
        self.assertEqual(components(edges), [["x", "x::y"]])

    def test_a_parent_that_calls_its_child_by_path(self):
        edges = self.edges({"lib.rs": "mod x;", "x/mod.rs": "mod y; pub struct X; fn f() { y::run::<u8>(1) }",
                            "x/y.rs": "pub fn run<T>(_: T) -> super::X { super::X }"})
        self.assertEqual(components(edges), [["x", "x::y"]])

    def test_an_import_in_the_parent_is_followed(self):
        edges = self.edges({"lib.rs": "mod x; mod z;", "x.rs": "mod y; use crate::z::Z; pub struct X(Z);",
                            "x/y.rs": "use super::Z; fn f(_: Z) {}", "z.rs": "pub struct Z;"})
        self.assertEqual(edges["x::y"], {"z"})

    def test_an_imported_module_counts_where_its_names_are_used(self):
        edges = self.edges({"lib.rs": "mod a; mod b; mod c;", "a.rs": "use crate::{b, c::{self, C}}; fn f(_: C) { b::g() }",
                            "b.rs": "use crate::a; pub fn g() {}", "c.rs": "pub struct C;"})
        self.assertEqual(edges, {"lib": set(), "a": {"b", "c"}, "b": set(), "c": set()})

    def test_globs_count_for_the_names_that_are_used(self):
        edges = self.edges({"lib.rs": "mod a; mod b;", "a.rs": "pub struct A; pub struct Unused;",
                            "b.rs": "use crate::a::*; pub fn b(x: A) { x.Unused }"})
        self.assertEqual(edges["b"], {"a"})
        edges = self.edges({"lib.rs": "mod a; mod b;", "a.rs": "pub struct A;", "b.rs": "use crate::a::*; fn b(x: u8) {}"})
        self.assertEqual(edges["b"], set())

    def test_inline_modules_belong_to_their_file(self):
        edges = self.edges({"lib.rs": "mod a; mod b;", "a.rs": "pub struct A; mod inner { use super::A; use crate::b::B; }",
                            "b.rs": "pub struct B; fn f() { crate::a::inner::f() }"})
        self.assertEqual(edges, {"lib": set(), "a": {"b"}, "b": {"a"}})

    def test_macros_of_the_crate(self):
        edges = self.edges({"lib.rs": "#[macro_use] mod m; mod a;", "m.rs": "#[macro_export] macro_rules! twice { () => {} }",
                            "a.rs": "fn f() { crate::twice!() }"})
        self.assertEqual(edges["a"], {"m"})

    def test_code_of_tests_does_not_count(self):
        edges = self.edges({
            "lib.rs": "mod a; mod b;",
            "a.rs": "#[cfg(test)] use crate::b::{B, C};\n#[cfg(all(test, unix))]\n#[allow(unused)]\nmod tests { use crate::b::B; }\n"
                    "#[cfg(test)] mod more;\n pub struct A { x: u8, #[cfg(test)] y: crate::b::B, z: u8 }\n"
                    "#[cfg(test)] fn f(a: u8, b: u8) -> crate::b::B { loop {} }",
            "b.rs": "use crate::a::A; pub struct B; #[cfg(not(test))] use crate::a as x;"})
        self.assertEqual(edges, {"lib": set(), "a": set(), "b": {"a"}})

    def test_comments_and_literals_do_not_count(self):
        edges = self.edges({
            "lib.rs": "mod a; mod b;",
            "a.rs": "//! [`crate::b::B`]\n/* crate::b::B /* nested */ crate::b::B */ const X: &str = \"crate::b::B\";\n"
                    "const Y: &str = r#\"crate::b::\"B\"#; fn f<'a>(x: &'a str) -> char { '\"' }",
            "b.rs": "pub struct B;"})
        self.assertEqual(edges["a"], set())

    def test_names_of_other_crates_are_outside(self):
        self.assertEqual(self.edges({"lib.rs": "mod a;", "a.rs": "use std::fmt; use other::a::B; fn f() { fmt::x(); ::a::x() }"}),
                         {"lib": set(), "a": set()})


class OtherCycles(unittest.TestCase):
    def repository(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            path = Path(folder.name) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Path(folder.name)

    def test_crates_depend_on_each_other_without_their_tests(self):
        root = self.repository({
            "crates/a/Cargo.toml": '[package]\nname = "a"\n[dependencies]\nb.workspace = true\nserde = "1"\n',
            "crates/b/Cargo.toml": '[package]\nname = "b"\n[dev-dependencies]\na.workspace = true\n',
            "crates/c/Cargo.toml": '[package]\nname = "c"\n[target.\'cfg(unix)\'.dependencies]\na.workspace = true\n'})
        self.assertEqual({name: set(into) for name, into in crate_edges(root).items()}, {"a": {"b"}, "b": set(), "c": {"a"}})

    def test_folders_of_the_plugin_that_include_each_other(self):
        root = self.repository({"plugin/x/a.h": '#include "y/b.h"\n#include <vector>', "plugin/x/c.h": "", "plugin/y/b.h": "",
                                "plugin/y/d.cc": '#include "../x/c.h"', "plugin/tests/t.cc": '#include "../x/a.h"'})
        self.assertEqual(components(include_edges(root)), [["x", "y"]])
        self.assertEqual(components(include_edges(root, by_folder=False)), [])

    def test_each_cycle_is_a_fault(self):
        graphs = {"one": {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]}, "two": {"a": ["b"], "b": []}}
        self.assertEqual([fault.split(" (")[0] for fault in faults(graphs)], ["a cycle, one: a b", "a cycle, one: c d"])

    def test_components(self):
        edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"f", "a"}}
        self.assertEqual(components(edges), [["a", "b", "c"], ["d", "e"]])


class SourceText(unittest.TestCase):
    def test_functions_of_rust(self):
        text = "fn short();\npub fn long(x: [u8; 2]) -> u8\nwhere\n{\n    '{'; \"}\"; // }\n    match x { _ => 1 }\n}\nfn last() {}\n"
        self.assertEqual(list(source_text.rust_functions(text)), [("long", 2, 6), ("last", 8, 1)])

    def test_functions_of_cpp(self):
        text = ("#define F(x) { x\nnamespace n {\nclass A : public B {\n  int f() const {\n    return '{';\n  }\n  int g();\n};\n"
                "static const int table[] = {1, 2};\nA::A(int x)\n    : x_(x) {\n  if (x) { y(); }\n}\n}\n")
        self.assertEqual(list(source_text.cpp_functions(text)), [("f", 4, 3), ("A::A", 10, 4)])

    def test_comments(self):
        self.assertEqual(list(source_text.comments("a // one\n\"// no\" /* two\nthree */\n")),
                         [(1, "// one"), (2, "/* two"), (3, "three */")])


class Wording(unittest.TestCase):
    def lines(self, name, text):
        return sorted(int(fault.split(":")[1]) for fault in wording.faults(name, text))

    def test_comments_of_each_language(self):
        self.assertEqual(self.lines("a.rs", 'let x = "besides"; // besides\nlet besides = 1; // at least\n'), [1])
        self.assertEqual(self.lines("a.cc", "int x; /* one\n somebody */"), [2])
        self.assertEqual(self.lines("a.py", '"""Nobody.\n\nanew\n"""\nx = "anew"  # anew\n'), [1, 3, 5])
        self.assertEqual(self.lines("a.sh", "#!/bin/bash\necho anew # told\n"), [2])

    def test_comments_and_echo_of_the_server_tests(self):
        text = "# anew\n--echo # anew\n  echo anew;\ninsert into t values ('# anew');\n--let $x= anew\nselect 1 -- anew\n-- anew\n"
        self.assertEqual(self.lines("a.test", text), [1, 2, 3, 7])
        self.assertEqual(self.lines("a.inc", "select 1;\n  # anew\n"), [2])

    def test_comments_of_sql_and_toml(self):
        text = "-- anew\n# anew\nselect '-- anew', \"# anew\", 'it''s', 1 -- anew\ncreate table anew (a int);\n"
        self.assertEqual(self.lines("a.sql", text), [1, 2, 3])
        self.assertEqual(self.lines("a.toml", "# anew\nanew = \"# anew\"\nx = '# anew' # told\n"), [1, 3])

    def test_text_files(self):
        self.assertEqual(self.lines("a.txt", "one\nmain.join other plans anew\n"), [2])

    def test_documents_without_their_code(self):
        self.assertEqual(self.lines("a.md", "anew `anew`\n```\nanew\n```\n    anew\nthe least recently used\n"), [1])


class Links(unittest.TestCase):
    def found(self, pages):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                (Path(folder) / name).write_text(text)
            return list(links.faults(Path(folder), list(pages)))

    def test_links_to_files_and_headings(self):
        pages = {"a.md": "[b](b.md) [there](b.md#what-it-does-in-c) [here](#top) [away](mailto:a@b)\n# Top\n",
                 "b.md": "## What it does, in `C`\n"}
        self.assertEqual(self.found(pages), [])

    def test_missing_files_and_headings(self):
        pages = {"a.md": "[b](c.md) [there](b.md#other)", "b.md": "# One\n"}
        self.assertEqual(self.found(pages), ["a.md: links to c.md, which does not exist",
                                             "a.md: links to b.md#other, but the page has no such heading"])

    def test_code_is_not_searched(self):
        self.assertEqual(self.found({"a.md": "`[x](y.md)`\n```\n[x](y.md)\n```\n"}), [])


class TestModules(unittest.TestCase):
    def test_files_that_no_program_contains(self):
        manifest = '[[test]]\nname = "own"\npath = "tests/own.rs"\n'
        self.assertEqual(undeclared_tests("mod a;\nmod common;\n", ["main", "a", "b", "own"], manifest + 'path = "tests/main.rs"\n'), ["b"])


if __name__ == "__main__":
    unittest.main()
