"""What concurrent transactions did, as they saw it.

Two kinds of objects. A list only grows: a transaction appends an element that nobody else ever appends, and reads the
whole list, so reads tell the order of the appends. A register is overwritten: every write leaves, beside its own value, the
value that it replaced, so a read of it tells which version followed which.
"""

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
    value: int  # 0: as it was at first


@dataclass
class Transaction:
    name: str
    steps: list = field(default_factory=list)
    status: str = ABORTED
