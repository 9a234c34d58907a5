"""Tests of `make bench-space` that need no server: definitions, data sets, figures, tables and charts."""

import json
import re
import unittest
from argparse import Namespace
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

from bench.charts import bar_chart, number
from bench.load.engines import FILES, MODES
from bench.sql import publish, shapes
from bench.sql.tpch import schema
from tests.harness import ROOT

from . import cases, columns, figures, parquet, web_log
from .__main__ import DEFAULT_ENGINES, missing_of, parse
from .cases import CASES
from .run import note, refusal, scans

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"


class Definitions(unittest.TestCase):
    def test_columns_and_keys_are_separated(self):
        found = columns.parse(shapes.STOCK_COLUMNS + shapes.STOCK_KEYS)
        self.assertEqual([(one.name, one.kind, one.size) for one in found.columns],
                         [("article", "uint", (32,)), ("shop", "uint", (8,)), ("amount", "int", (32,)), ("note", "text", ())])
        self.assertEqual((found.primary, found.key_items), ([], ["UNIQUE KEY (article)", "KEY (shop, amount)"]))
        self.assertNotIn("KEY", found.text(secondary=False))

    def test_a_key_of_one_column_may_stand_with_it(self):
        found = columns.parse(schema.TABLES["orders"])
        self.assertEqual(found.primary, ["o_orderkey"])
        self.assertNotIn("KEY", found.text(primary=False, secondary=False))
        self.assertEqual(found.text().count("PRIMARY KEY (o_orderkey)"), 1)
        self.assertEqual(found.text().count("KEY ("), 3)

    def test_decimals_and_nullable_columns(self):
        found = columns.parse(shapes.SENSOR_COLUMNS)
        self.assertEqual([(one.size, one.is_nullable) for one in found.columns[4:]], [((4, 2), False), ((16,), True)])
        self.assertEqual(found.primary, ["sensor", "at"])

    def test_an_unknown_type_is_refused(self):
        with self.assertRaisesRegex(ValueError, "GEOMETRY"):
            columns.parse("a INT, place GEOMETRY NOT NULL")

    def test_a_scan_reads_each_column(self):
        query = columns.scan("sensor", columns.parse(shapes.SENSOR_COLUMNS).columns)
        self.assertEqual(query, "SELECT COUNT(*), SUM(sensor), MAX(at), SUM(temperature), SUM(humidity), SUM(voltage), SUM(errors) FROM sensor")

    def test_only_sums_of_large_numbers_are_compared_modulo_their_size(self):
        small, large = columns.column("a INT NOT NULL"), columns.column("b BIGINT UNSIGNED NOT NULL")
        self.assertTrue(columns.same([small, large], ["2", "7", str(2**64 + 5)], ["2", "7", "5"]))
        self.assertFalse(columns.same([small, large], ["2", "7", "6"], ["2", "7", "5"]))
        self.assertFalse(columns.same([small], ["2", str(2**64 + 5)], ["2", "5"]))
        self.assertFalse(columns.same([small], ["2", "7"], ["2"]))


class DataSets(unittest.TestCase):
    def test_the_web_log_has_the_columns_that_its_generator_describes(self):
        text = (ROOT / "crates" / "bench" / "src" / "web_log.rs").read_text()
        described = re.findall(r"^//! \| `(\w+)` \| `([^`]+)` \|", text, re.M)
        self.assertEqual(len(described), 105)
        self.assertEqual([f"{name} {kind}" for name, kind in described], columns.parse(web_log.COLUMNS).column_items)

    def test_upserts_change_rows_that_exist(self):
        found = cases.upserted(300)
        self.assertEqual(sum(amount for _, amount, _ in found.values()), sum(range(300)))
        self.assertLess(len(found), 100)
        self.assertEqual(found, cases.upserted(300))
        statements = list(cases.upsert_statements(Namespace(rows=25_000)))
        self.assertEqual([re.search(r"seq_\d+_to_\d+", one)[0] for one in statements],
                         ["seq_0_to_9999", "seq_10000_to_19999", "seq_20000_to_24999"])

    def test_every_table_has_a_definition_that_is_understood(self):
        with mock.patch.object(cases, "data_file", lambda *_, **__: Path("rows.tsv")), mock.patch.object(cases.tpch, "files", Path), \
                mock.patch.object(cases, "upsert_table", None), mock.patch.object(cases.demo, "fetch_archive"), mock.patch.object(cases.demo, "convert"):
            for name in ("star", "star_keys", "phrase", "sensor", "flights", "new_york", "tpch", "weblog"):
                for table in CASES[name].tables(Namespace(rows=10, scale="1")):
                    self.assertTrue(set(table.order) <= {one.name for one in table.definition.columns}, name)
                    plan = CASES[name].plan(Namespace(rows=10, scale="1"), "InnoDB")
                    self.assertEqual(len(plan.create), len(plan.measured[0]), name)

    def test_secondary_keys_are_only_in_the_cases_that_have_them(self):
        with mock.patch.object(cases.tpch, "files", Path):
            options = Namespace(scale="1")
            counts = {name: sum(one.count("KEY (") for one in CASES[name].plan(options, "InnoDB").create) for name in ("tpch", "tpch_keys")}
        self.assertEqual(counts, {"tpch": 8, "tpch_keys": 8 + 9})


    def test_the_text_is_read_in_the_character_set_of_the_table(self):
        definition = columns.parse("a INT NOT NULL")
        self.assertEqual(cases.Table("t", definition, "t.tsv").load(), "LOAD DATA INFILE 't.tsv' INTO TABLE t CHARACTER SET utf8mb4")
        self.assertEqual(cases.Table("t", definition, "t.tbl", "|", True, "latin1").load(),
                         "LOAD DATA INFILE 't.tbl' INTO TABLE t CHARACTER SET latin1 FIELDS TERMINATED BY '|' LINES TERMINATED BY '|\\n'")


class Engines(unittest.TestCase):
    def test_every_codec_of_teak_and_each_format_is_measured(self):
        options = parse([])
        self.assertEqual(len(options.engines), len(DEFAULT_ENGINES.split(",")))
        teak = {MODES[name].of_table() for name in options.engines if name.startswith("Teak")}
        self.assertEqual(teak, {"TEAK", *(f"TEAK COMPRESSION={codec}" for codec in ("none", "lz4", "snappy", "zlib", "lzma"))})
        self.assertEqual(parse(["--engines=myrocks zstd,PARQUET", "--cases=star"]).engines, ["RocksDB zstd", "Parquet"])

    def test_the_caches_of_all_servers_have_the_same_size(self):
        self.assertEqual(MODES["Aria"].server_options("64M"), ["--aria-pagecache-buffer-size=64M"])
        self.assertTrue(all(mode.engine in FILES for mode in MODES.values()))

    def test_what_is_left_out_has_a_reason(self):
        self.assertIn("secondary keys", refusal(CASES["star_keys"], "ARCHIVE"))
        self.assertIn("unique keys", refusal(CASES["upsert"], "ARCHIVE"))
        self.assertIsNone(refusal(CASES["sensor"], "ARCHIVE"))
        self.assertEqual((note(CASES["sensor"], "ARCHIVE"), note(CASES["star"], "ARCHIVE")), ("no key", ""))
        self.assertIn("no keys", refusal(CASES["star_keys"], "Parquet"))
        self.assertIsNone(refusal(CASES["star"], "Parquet"))
        self.assertIsNone(refusal(CASES["sensor"], "pco"))
        self.assertIn("numbers", refusal(CASES["weblog"], "pco"))
        self.assertEqual(missing_of(parse(["--engines=InnoDB,Teak"])), {name: {} for name in CASES})

    def test_an_engine_without_files_is_refused(self):
        with mock.patch("sys.stderr"), self.assertRaises(SystemExit):
            parse(["--engines=BLACKHOLE"])


def run(engine, size, repeat=0, case="star", rows=1000, **more):
    sizes = {f"{what}_bytes_{when}": size for what in ("table", "all") for when in ("at_end", "idle", "stopped")}
    return {"case": case, "engine": engine, "repeat": repeat, "table_rows": rows, "rows_per_second": 1e6 / size, **sizes, **more}


class Figures(unittest.TestCase):
    RUNS = [run("Teak", 60_000), run("Teak", 64_000, 1), run("Teak", 61_000, 2), run("InnoDB", 200_000), {**run("Aria", 1), "error": "lost"}]

    def test_medians_and_ratios(self):
        found = figures.medians(self.RUNS, "star", ["InnoDB", "Teak", "Aria"])
        self.assertEqual(list(found), ["InnoDB", "Teak"])
        self.assertEqual((found["Teak"]["table_bytes_idle"], found["Teak"]["bytes_per_row_idle"]), (61_000, 61))
        self.assertAlmostEqual(found["InnoDB"]["to_ours"], 200 / 61)
        self.assertEqual(figures.medians(self.RUNS, "sensor", ["Teak"]), {})

    def test_a_bar_is_judged_at_each_moment(self):
        runs = [{**run("Teak", 63_000), "table_bytes_idle": 61_000}]
        lines = figures.bars(CASES["star"], figures.medians(runs, "star", ["Teak"]))
        self.assertEqual([line.rsplit(": ", 1)[1] for line in lines], ["MISSED", "met", "MISSED"])
        self.assertIn("63.00 B a row, at most 62", lines[0])

    def test_a_bar_is_not_judged_before_the_rows_are_in_files(self):
        runs = [{**run("Teak", 61_000), "table_bytes_at_end": 900}]
        lines = figures.bars(CASES["star"], figures.medians(runs, "star", ["Teak"]))
        self.assertIn("at the end of the load: not judged", lines[0])
        self.assertIn("met", lines[1])

    def test_a_bar_of_a_ratio_needs_the_rival(self):
        case = CASES["star_keys"]
        runs = [run("Teak", 60, case="star_keys"), run("RocksDB zstd", 100, case="star_keys")]
        lines = figures.bars(case, figures.medians(runs, "star_keys", ["Teak", "RocksDB zstd"]))
        self.assertIn("0.600 of MyRocks zstd, at most 0.65: met", lines[1])
        self.assertTrue(all("not measured" in line for line in figures.bars(case, figures.medians(runs, "star_keys", ["Teak"]))))

    def test_the_bar_of_a_million_rows_is_not_judged_with_fewer(self):
        for rows, judged in ((1_000_000, "met"), (1000, "not judged")):
            found = figures.medians([run("Teak", 4 * MIB, case="sensor", rows=rows)], "sensor", ["Teak"])
            self.assertIn(judged, figures.bars(CASES["sensor"], found)[0])

    def test_other_sums_are_reported(self):
        definitions = [[columns.column("a INT NOT NULL")]]
        runs = [run("InnoDB", 1, answers=[["3", "6"]]), run("Teak", 1, answers=[["3", "6"]]), run("Aria", 1, answers=[["3", "7"]])]
        self.assertEqual(figures.wrong_answers(CASES["star"], runs, definitions), ["WRONG ANSWER: star: Aria has other sums than InnoDB"])
        self.assertEqual(figures.wrong_answers(CASES["star"], runs[:2], definitions), [])

    def test_scans_have_a_cold_and_warm_rate(self):
        found = scans([4, 1, 2, 9], [["10", "1"], ["6", "1"]])
        self.assertEqual((found["table_rows"], found["cold_rows_per_second"], found["warm_rows_per_second"]), (16, 4, 8))

    def test_parts_of_a_scan_of_a_file_are_joined(self):
        self.assertEqual([parquet.joined("uint", None, 3), parquet.joined("uint", 2, 3), parquet.joined("date", "2026-01-02", "2026-01-01")],
                         [3, 5, "2026-01-02"])


class Output(unittest.TestCase):
    def results(self):
        options = parse(["--engines=InnoDB,ARCHIVE,Teak", "--cases=star,star_keys"])
        runs = [run("Teak", 60_000), run("InnoDB", 200_000), run("ARCHIVE", 90_000), run("Teak", 70_000, case="star_keys")]
        about = {"machine": {"processor": "x86", "mariadb": "10.11", "commit": "abc"}, "date": "2026-01-01",
                 "options": {"repeat": 1, "cores": 2, "rows": 1000, "scale": 0.3, "cache": "256M"}}
        return {**about, **figures.summary(options.cases, runs, options, missing_of(options))}

    def test_a_table_has_a_line_for_each_engine(self):
        header, lines = figures.table(figures.medians(Figures.RUNS, "star", ["InnoDB", "Teak"]), {"InnoDB": "no key"})
        self.assertEqual([line[:2] for line in lines], [["InnoDB", "no key"], ["Teak (zstd)", ""]])
        self.assertTrue(all(len(line) == len(header) for line in lines))
        self.assertIn("3.28", lines[0])

    def test_results_can_be_stored_and_published(self):
        results = json.loads(json.dumps(self.results()))
        page = "\n".join(figures.page(results))
        self.assertIn("| Teak (zstd) | 60.0 | 70.0 |", page)
        self.assertIn("| ARCHIVE | 90.0 | - |", page)
        self.assertIn("- star schema, no key, after 10 idle seconds: 60.00 B a row, at most 62: met", page)
        self.assertIn("- star schema, 4 keys: ARCHIVE, because ARCHIVE has no secondary keys", page)

    def test_runs_of_different_data_sets_are_merged_unless_their_options_differ(self):
        first = self.results()
        second = {**self.results(), "cases": [{"name": "sensor"}, {"name": "star", "title": "newer"}]}
        found = figures.merged(first, second)
        self.assertEqual([(case["name"], case.get("title", "")) for case in found["cases"]],
                         [("star", "newer"), ("star_keys", "star schema, 4 keys"), ("sensor", "")])
        self.assertEqual(figures.merged({**first, "options": {**first["options"], "rows": 1}}, second), second)
        self.assertEqual(figures.merged({**first, "machine": {}}, second), second)
        self.assertEqual(figures.merged(None, second), second)

    def test_the_page_is_written_between_its_marks(self):
        text = "before\n<!-- table space -->\nold\n<!-- end -->\nafter\n"
        self.assertEqual(publish.with_tables(text, {"space": ["new"]}), "before\n<!-- table space -->\nnew\n<!-- end -->\nafter\n")
        self.assertLessEqual(set(publish.SPACE_CHARTS), set(figures.PUBLISHED))

    def test_charts_are_xml_with_a_bar_for_each_value(self):
        for figure in publish.SPACE_CHARTS:
            chart = ElementTree.fromstring(figures.chart(self.results(), figure))
            # One rectangle is the background.
            self.assertEqual(len(chart.findall(f"{SVG}rect")), 1 + (4 if figure != "warm_rows_per_second" else 0))

    def test_bars_are_as_long_as_their_values(self):
        groups = {"a < b": {"Teak": 10.0, "InnoDB": 4.0}, "small": {"Teak": 1.0}}
        for same_scale, ratio in ((True, 0.1), (False, 1)):
            chart = ElementTree.fromstring(bar_chart("title & more", groups, same_scale=same_scale))
            widths = [float(one.get("width")) for one in chart.findall(f"{SVG}rect")[1:]]
            self.assertAlmostEqual(widths[1] / widths[0], 0.4, 2)
            self.assertAlmostEqual(widths[2] / widths[0], ratio, 2)

    def test_columns_of_a_chart_do_not_overlap(self):
        chart = ElementTree.fromstring(bar_chart("t", {str(name): {"Teak": 1.0, "InnoDB": 2.0} for name in range(4)}, columns=2, column_width=400))
        places = {(float(one.get("x")), float(one.get("y"))) for one in chart.findall(f"{SVG}rect")[1:]}
        self.assertEqual(len(places), 8)
        self.assertEqual(chart.get("width"), "800")
        self.assertEqual([number(value) for value in (1234.5, 99.96, 3.14159)], ["1,234", "100.0", "3.14"])


if __name__ == "__main__":
    unittest.main()
