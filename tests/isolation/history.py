"""The operations of concurrent transactions, with the values that they read.

There are two kinds of objects. A list only grows: a transaction appends a unique element, and reads the
whole list, so reads show the order of the appends. A register is overwritten: every write stores its own value and the
value that it replaced, so a read shows the order of the versions.
"""

import math
from dataclasses import dataclass, field

COMMITTED, ABORTED = "committed", "aborted"


@dataclass
class Append:
    key: int
    element: int
    kept: bool = True  # False: undone by a rollback to a savepoint


@dataclass
class ReadList:
    key: int
    elements: tuple


@dataclass
class Write:
    key: int
    value: int
    kept: bool = True


@dataclass
class ReadRegister:
    key: int
    prior: int
    value: int  # 0: the initial value


@dataclass
class Transaction:
    name: str
    steps: list = field(default_factory=list)
    status: str = ABORTED
    # Seconds of the system's monotonic clock: before its first statement, and after its last one was answered.
    began: float = 0.0
    ended: float = math.inf
    statements: list = field(default_factory=list)  # (seconds, statement, answer)
