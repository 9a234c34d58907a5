"""What the dashboard and the alarms contain, and what they may refer to: the status variables of docs/user/monitoring.md,
which the test `documentation` of the suite `teak` compares with the server."""

import json
import re
from dataclasses import dataclass, field

from tests.harness import ROOT

DASHBOARD = ROOT / "monitoring" / "grafana-teak.json"
ALARMS = ROOT / "monitoring" / "teak-alerts.yml"
PREFIX = "mysql_global_status_"
# Metrics of mysqld_exporter that are not status variables.
OTHER_METRICS = {"mysql_up", "mysql_slave_status_seconds_behind_master", "mysql_slave_status_slave_sql_running",
                 "mysql_slave_status_slave_io_running"}


def exported_name(variable):
    """The metric that mysqld_exporter makes of a status variable."""
    return PREFIX + re.sub("[^a-zA-Z0-9_]", "_", variable).lower()


def documented():
    """The status variables by name; the value is whether it is a counter."""
    text = (ROOT / "docs" / "user" / "monitoring.md").read_text()
    return {name: not unit.startswith("gauge") for name, unit in re.findall(r"^\| `(Teak_\w+)` \| ([^|]+) \|", text, re.M)}


@dataclass
class Alarm:
    """A rule of the file of alarms."""

    name: str
    expression: str = ""
    values: dict = field(default_factory=dict)


def alarms(text):
    """The rules of a file of alarms. This is not a parser for YAML: a value is on the line of its key, or folded (`>-`)."""
    found, indent = [], 0
    for line in text.splitlines():
        spaces = len(line) - len(line.lstrip())
        match = re.match(r" *(?:- )?(\w+):(?: (.*))?$", line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().startswith("- alert:"):
            found.append(Alarm(match[2]))
        elif not found or line.lstrip().startswith("- name:") or line.lstrip() == "rules:":
            continue
        elif match and match[1] == "expr":
            indent = spaces
            found[-1].expression = "" if match[2] == ">-" else match[2]
        elif indent and spaces > indent:
            found[-1].expression += " " + line.strip()
        elif match:
            indent = 0
            found[-1].values[match[1]] = (match[2] or "").strip('"')
        else:
            raise ValueError(f"unknown line: {line}")
    return found


def panels(dashboard):
    """The panels with queries."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions():
    """All expressions of both files, each with its place."""
    for alarm in alarms(ALARMS.read_text()):
        yield f"alarm {alarm.name}", alarm.expression
    for panel in panels(json.loads(DASHBOARD.read_text())):
        for target in panel["targets"]:
            yield f"panel {panel['title']}, {target['legendFormat']}", target["expr"]
