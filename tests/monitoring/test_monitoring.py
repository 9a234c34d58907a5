import json
import re
import unittest

from scripts.tidy.links import anchors
from tests.harness import ROOT

from . import expressions, sources
from .expressions import Use

PAGE = "docs/user/alarms.md"
# Numbers of the alarms: the text of docs/design/bounds.md from which each is computed.
NUMBERS = {
    "TeakMergeBacklog": (["1.6", "268435456", "/ 8"], "the maximum of 256 MiB, four times the memtables' share and 1/8 of the index"),
    "TeakRunsNearBound": ([">= 12"], "| 16; of a leaf 12 pending runs. "),
    "TeakMemtablesNearBound": (["0.375"], "| 2/5 of the cache | 1/2: the largest are frozen | 15/16;"),
    "TeakMemtablesRetained": (["0.3 "], "| 3/4 of the memtables' share: the page cache becomes smaller |"),
    "TeakLogNearBound": (["> 0.5"], "| 1/4: checkpoint | 1/2 |"),
    "TeakLogFull": (["> 0.921875"], "| 59/64: transactions wait before their first row"),
    "TeakAbortedIds": (["> 262144"], "| 1,048,576 ranges, and those among"),
    "TeakAbortedIdsNearBound": (["> 524288"], "| 1/2, for transactions that have not written yet |"),
    "TeakLockMemoryNearBound": (["> 0.875"], "| 7/8: the locks of the transaction with the most lock memory"),
    "TeakMemoryAboveBudget": (["> 67108864"], "on BLACKHOLE tables, the cache and 64 MiB |"),
}


class Expressions(unittest.TestCase):
    def test_metrics_are_found_with_their_functions(self):
        found = expressions.uses('rate(a{x=~"$b",y="1"}[5m]) / clamp_min(1.6 * b, 2) > c and (d - e) == 0')
        self.assertEqual(found, [Use("a", "rate"), *(Use(name, None) for name in "bcde")])
        found = expressions.uses('histogram_quantile(0.5, label_replace(rate(a[$__rate_interval]), "le", "+Inf", "", ""))')
        self.assertEqual(found, [Use("a", "rate")])

    def test_wrong_syntax_is_refused(self):
        for wrong in ("rate(a[5m]", "(a))", "a b", "a +", "+ / a", "a{x=1}", 'a{x="1"', "rate(a)", "a[5m]", "clamp_min(a)", "median(a)", "", "a > #"):
            with self.assertRaises(expressions.WrongSyntax, msg=wrong):
                expressions.uses(wrong)


class Files(unittest.TestCase):
    VARIABLES = sources.documented()
    METRICS = {sources.exported_name(name): is_counter for name, is_counter in VARIABLES.items()}
    RULES = sources.alarms(sources.ALARMS.read_text())
    DASHBOARD = json.loads(sources.DASHBOARD.read_text())

    def test_expressions_use_metrics_that_exist_and_rates_of_counters_only(self):
        count = 0
        for place, text in sources.expressions():
            with self.subTest(place):
                for use in expressions.uses(text):
                    count += 1
                    if use.metric not in sources.OTHER_METRICS:
                        self.assertIn(use.metric, self.METRICS)
                    is_total = use.function is None and self.METRICS.get(use.metric, False)
                    # The only counter whose total is of interest: damage remains until a repair.
                    self.assertTrue(not is_total or use.metric.endswith("corruption_errors"), f"{use.metric} is a counter")
                    if use.function:
                        self.assertTrue(self.METRICS[use.metric], f"{use.metric} is not a counter")
        self.assertGreater(count, 100)

    def test_every_alarm_has_what_prometheus_and_its_reader_need(self):
        self.assertEqual(len(self.RULES), sources.ALARMS.read_text().count("- alert:"))
        self.assertEqual(len(self.RULES), len({alarm.name for alarm in self.RULES}))
        headings = anchors((ROOT / PAGE).read_text())
        for alarm in self.RULES:
            with self.subTest(alarm.name):
                self.assertRegex(alarm.expression, " (?:[<>]=?|==) ")
                self.assertIn(alarm.values["severity"], ("info", "warning", "critical"))
                self.assertTrue(alarm.values["summary"])
                page, _, heading = alarm.values["page"].partition("#")
                self.assertEqual(page, PAGE)
                self.assertIn(heading, headings)

    def test_every_alarm_has_a_test_for_promtool(self):
        tested = re.findall(r"^ *alertname: (\w+)$", (ROOT / "tests" / "monitoring" / "alarms.yml").read_text(), re.M)
        self.assertEqual(tested, [alarm.name for alarm in self.RULES])

    def test_the_page_of_alarms_lists_the_rules(self):
        sections = re.split(r"^## ", (ROOT / PAGE).read_text(), flags=re.M)[1:]
        described = {}
        for section in sections:
            heading = next(iter(anchors("## " + section)))
            for name in re.findall(r"^`(Teak\w+)`", section, re.M):
                described[name] = f"{PAGE}#{heading}"
        self.assertEqual(described, {alarm.name: alarm.values["page"] for alarm in self.RULES})

    def test_the_page_of_alarms_names_variables_that_exist(self):
        for name in re.findall(r"`(Teak_\w+)`", (ROOT / PAGE).read_text()):
            self.assertIn(name, self.VARIABLES)

    def test_thresholds_are_those_of_the_page_of_bounds(self):
        bounds = (ROOT / "docs" / "design" / "bounds.md").read_text()
        rules = {alarm.name: alarm for alarm in self.RULES}
        for name, (numbers, text) in NUMBERS.items():
            with self.subTest(name):
                self.assertIn(text, bounds)
                for number in numbers:
                    self.assertIn(number, rules[name].expression)

    def test_panels_have_titles_places_and_queries(self):
        self.assertEqual(len(self.DASHBOARD["panels"]), len({panel["id"] for panel in self.DASHBOARD["panels"]}))
        taken = set()
        for panel in self.DASHBOARD["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken |= cells
        for panel in sources.panels(self.DASHBOARD):
            with self.subTest(panel["title"]):
                self.assertTrue(panel["description"])
                self.assertTrue(panel["targets"])
                references = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(references), len(set(references)))
                legends = {target["legendFormat"] for target in panel["targets"]}
                for override in panel["fieldConfig"]["overrides"]:
                    self.assertIn(override["matcher"]["options"], legends)

    def test_every_query_of_the_dashboard_selects_the_server(self):
        for panel in sources.panels(self.DASHBOARD):
            for target in panel["targets"]:
                metrics = len(expressions.uses(target["expr"]))
                self.assertEqual(target["expr"].count('{job=~"$job",instance=~"$instance"}'), metrics, panel["title"])


class Names(unittest.TestCase):
    def test_exported_names_are_those_of_mysqld_exporter(self):
        self.assertEqual(sources.exported_name("Teak_log_bytes_used"), "mysql_global_status_teak_log_bytes_used")

    def test_documented_variables_are_counters_or_gauges(self):
        found = sources.documented()
        self.assertTrue(found["Teak_flushes"])
        self.assertFalse(found["Teak_log_bytes_used"])
        self.assertGreater(len(found), 100)


if __name__ == "__main__":
    unittest.main()
