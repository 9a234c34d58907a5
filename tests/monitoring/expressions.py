"""A parser for the part of PromQL that the dashboard and the alarms use. It finds wrong syntax and the metrics of an
expression without Prometheus."""

import re
from dataclasses import dataclass

TOKEN = re.compile(r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
  | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<range>\[(?:\d+(?:ms|[smhdwy])|\$__rate_interval)\])
  | (?P<operator>==|!=|>=|<=|=~|!~|[-+*/%^<>=(){},])
)""", re.VERBOSE)
COMPARISONS = {"==", "!=", ">=", "<=", ">", "<"}
OPERATORS = COMPARISONS | {"+", "-", "*", "/", "%", "^", "and", "or", "unless"}
MATCHERS = {"=", "!=", "=~", "!~"}
# The functions in use, with their numbers of arguments.
FUNCTIONS = {"rate": 1, "increase": 1, "clamp_min": 2, "histogram_quantile": 2, "label_replace": 5}
# Functions of counters; the argument is a range of samples.
OF_COUNTERS = {"rate", "increase"}


class WrongSyntax(Exception):
    """The expression is not valid, or uses syntax that this parser does not know."""


@dataclass(frozen=True)
class Use:
    """A metric in an expression, and the function of its samples in a time range, or None for its current value."""

    metric: str
    function: str | None


class Parser:
    """A parser by recursive descent; `uses` has the metrics in the order of the text."""

    def __init__(self, text):
        self.text = text
        self.tokens = []
        self.next = 0
        self.uses = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = TOKEN.match(text, at)
            if not match:
                raise WrongSyntax(f"unknown text {text[at:at + 20]!r}")
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()

    def peek(self):
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "the end")

    def take(self, kind=None, *texts):
        found = self.peek()
        if (kind and found[0] != kind) or (texts and found[1] not in texts):
            raise WrongSyntax(f"{found[1]} instead of {' or '.join(texts) or kind} in {self.text}")
        self.next += 1
        return found[1]

    def whole(self):
        self.expression(None)
        self.take("end")
        return self.uses

    def expression(self, function):
        self.operand(function)
        while self.peek()[1] in OPERATORS and self.peek()[0] != "string":
            self.take()
            self.operand(function)

    def operand(self, function):
        kind, text = self.peek()
        if text == "(":
            self.take()
            self.expression(None)
            self.take("operator", ")")
        elif kind in ("number", "string"):
            self.take()
        else:
            name = self.take("name")
            if self.peek()[1] == "(":
                self.call(name)
            else:
                self.metric(name, function)

    def call(self, name):
        if name not in FUNCTIONS:
            raise WrongSyntax(f"unknown function {name}")
        self.take("operator", "(")
        self.expression(name)
        for _ in range(FUNCTIONS[name] - 1):
            self.take("operator", ",")
            self.expression(name)
        self.take("operator", ")")

    def metric(self, name, function):
        if self.peek()[1] == "{":
            self.take()
            while self.peek()[1] != "}":
                self.take("name")
                self.take("operator", *MATCHERS)
                self.take("string")
                if self.peek()[1] != "}":
                    self.take("operator", ",")
            self.take()
        has_range = self.peek()[0] == "range"
        if has_range:
            self.take()
        if has_range != (function in OF_COUNTERS):
            raise WrongSyntax(f"{name} {'with' if has_range else 'without'} a time range as an argument of {function}")
        self.uses.append(Use(name, function if has_range else None))


def uses(text):
    """The uses of metrics in an expression. Raises WrongSyntax."""
    return Parser(text).whole()
