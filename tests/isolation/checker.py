"""Finds Adya's anomalies in a history.

Dependencies from one committed transaction to another: ww (the second overwrites or appends after the first), wr
(the second reads a version of the first), rw (the second replaces a version that the first read). A cycle of ww is
G0 (dirty write); of ww and wr, G1c (circular information flow); with exactly one rw, G-single (lost update or read
skew); with more, G2 (write skew, also by predicates: a read of a range also reads the absence of its other keys).
G1a is a read of a version that was rolled back; G1b is a read of a version that was not the last one of its
transaction.

Also: "internal" (a transaction does not see its own writes), "order" (two reads are not consistent with any order of the
writes), "lost" (a committed write is missing) and "stale" (a transaction does not see a write that was committed before it
began).
"""

from collections import Counter, defaultdict

from .graph import Graph, components, reaches
from .history import ABORTED, COMMITTED, Append, ReadList, ReadRegister, Write

WW, WR, RW = "ww", "wr", "rw"
ALWAYS = frozenset({"internal", "order", "lost", "G0"})
# Not at READ UNCOMMITTED, where a scan may miss a row that is moved concurrently.
COMMITTED_READS = ALWAYS | {"stale", "G1a", "G1b", "G1c"}
FORBIDDEN = {
    "READ UNCOMMITTED": ALWAYS,
    "READ COMMITTED": COMMITTED_READS,
    "REPEATABLE READ": COMMITTED_READS,
    "SNAPSHOT": COMMITTED_READS | {"G-single"},
    "SERIALIZABLE": COMMITTED_READS | {"G-single", "G2"},
}
EXAMPLES = 3


class Anomalies:
    def __init__(self):
        self.counts = Counter()
        self.examples = defaultdict(list)
        self.involved = defaultdict(set)  # kind -> the numbers of the transactions of its examples

    def add(self, kind, text, members=()):
        self.counts[kind] += 1
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append(text)
            self.involved[kind].update(members)

    def merge(self, other):
        self.counts += other.counts
        for kind, texts in other.examples.items():
            self.examples[kind] = (self.examples[kind] + texts)[:EXAMPLES]


class _Versions:
    """One object's versions in order, and their transactions."""

    def __init__(self):
        self.writers = {}  # version -> (transaction's number, whether this is its last write of the object)
        self.next = {}     # version -> its successor


class Checker:
    """Checks transactions together with `final`: {key: elements} of all lists after the last transaction ended."""

    def __init__(self, transactions, final):
        self.transactions = transactions
        self.final = final
        self.found = Anomalies()
        self.graph = Graph()
        self.lists = defaultdict(_Versions)
        self.registers = defaultdict(_Versions)
        self.undone = set()      # (key, version) that must never be read
        self.list_reads = []     # (transaction's number, key, elements)
        self.register_reads = []

    def check(self):
        for number, transaction in enumerate(self.transactions):
            self._take_writes(number, transaction)
        for number, transaction in enumerate(self.transactions):
            if transaction.status == COMMITTED:
                self._take_reads(number, transaction)
        self._order_lists()
        self._connect(self.registers, self.register_reads)
        self._find_cycles()
        return self.found

    def _name(self, number):
        return self.transactions[number].name

    def _take_writes(self, number, transaction):
        last = {}
        for step in transaction.steps:
            if isinstance(step, (Append, Write)):
                kind = self.lists if isinstance(step, Append) else self.registers
                version = step.element if isinstance(step, Append) else step.value
                if transaction.status == ABORTED or not step.kept:
                    self.undone.add((kind is self.lists, step.key, version))
                else:
                    last[kind is self.lists, step.key] = version
                    kind[step.key].writers[version] = (number, False)
        for (is_list, key), version in last.items():
            (self.lists if is_list else self.registers)[key].writers[version] = (number, True)

    # ---- reads ------------------------------------------------------------------------------------------------------

    def _take_reads(self, number, transaction):
        own = defaultdict(list)
        written = {}
        for step in transaction.steps:
            if isinstance(step, Append):
                if step.kept:
                    own[step.key].append(step.element)
            elif isinstance(step, ReadList):
                self._take_list_read(number, step, own[step.key])
            elif isinstance(step, Write):
                if step.kept:
                    written[step.key] = step.value
            elif isinstance(step, ReadRegister):
                self._take_register_read(number, step, written)

    def _take_list_read(self, number, step, own):
        seen = list(step.elements)
        others = seen[:len(seen) - len(own)] if own else seen
        if seen[len(others):] != own or any(element in others for element in own):
            self.found.add("internal", f"{self._name(number)} appended {own} to {step.key} and read {seen}", (number,))
            others = [element for element in seen if element not in own]
        clean = []
        for element in others:
            if (True, step.key, element) in self.undone:
                self.found.add("G1a", f"{self._name(number)} read {element} in {step.key}, which was rolled back", (number,))
            else:
                clean.append(element)
        if others and clean and clean[-1] == others[-1]:
            self._check_last(number, self.lists[step.key], step.key, clean[-1])
        self.list_reads.append((number, step.key, tuple(clean)))
        if own:
            self.list_reads.append((number, step.key, (*clean, *own)))

    def _take_register_read(self, number, step, written):
        own = written.get(step.key)
        if own is not None and step.value != own:
            self.found.add("internal", f"{self._name(number)} wrote {own} to {step.key} and read {step.value}", (number,))
        if step.value and (False, step.key, step.value) in self.undone:
            self.found.add("G1a", f"{self._name(number)} read {step.value} in {step.key}, which was rolled back",
                           (number,))
            return
        versions = self.registers[step.key]
        if step.value and (False, step.key, step.prior) not in self.undone:
            known = versions.next.setdefault(step.prior, step.value)
            if known != step.value:
                self.found.add("order", f"in {step.key}, {step.prior} was replaced by {known} and by {step.value}")
        if own is None:
            if step.value:
                self._check_last(number, versions, step.key, step.value)
            self.register_reads.append((number, step.key, step.value))

    def _check_last(self, number, versions, key, version):
        writer = versions.writers.get(version)
        if writer is None:
            self.found.add("order", f"{self._name(number)} read {version} in {key}, which was never written", (number,))
        elif writer[0] != number and not writer[1]:
            self.found.add("G1b", f"{self._name(number)} read {version} in {key}, which {self._name(writer[0])} replaced",
                           (number, writer[0]))

    # ---- dependencies -----------------------------------------------------------------------------------------------

    def _order_lists(self):
        longest = {key: tuple(elements) for key, elements in self.final.items()}
        for number, key, elements in self.list_reads:
            order = longest.get(key, ())
            shorter = min(len(order), len(elements))
            if order[:shorter] != elements[:shorter]:
                self.found.add("order", f"{self._name(number)} read {elements[-5:]} in {key}, another {order[:shorter][-5:]}",
                               (number,))
            elif len(elements) > len(order):
                longest[key] = elements
        reads = []
        for key, order in longest.items():
            versions = self.lists[key]
            for element in order:
                if (True, key, element) in self.undone:
                    self.found.add("G1a", f"{element} is in {key}, but was rolled back")
            versions.next = dict(zip((0, *order), order))
            if len(set(order)) < len(order):
                self.found.add("order", f"an element is twice in {key}")
        for key, versions in self.lists.items():
            present = set(longest.get(key, ()))
            for element, (number, _) in versions.writers.items():
                if element not in present and self.transactions[number].status == COMMITTED:
                    self.found.add("lost", f"{element}, appended to {key} by {self._name(number)}", (number,))
        for number, key, elements in self.list_reads:
            # Skips elements that the transaction itself appended: they are not dependencies.
            writer = self.lists[key].writers.get(elements[-1]) if elements else None
            if writer is None or writer[0] != number:
                reads.append((number, key, elements[-1] if elements else 0))
        self._connect(self.lists, reads)

    def _connect(self, objects, reads):
        def writer_of(versions, version):
            writer = versions.writers.get(version)
            is_committed = writer and self.transactions[writer[0]].status == COMMITTED
            return writer[0] if is_committed else None

        for key, versions in objects.items():
            for earlier, later in versions.next.items():
                self.graph.add(writer_of(versions, earlier), writer_of(versions, later), WW, key)
        for number, key, version in reads:
            versions = objects[key]
            self.graph.add(writer_of(versions, version), number, WR, key)
            following = writer_of(versions, versions.next.get(version))
            self.graph.add(number, following, RW, key)
            self._check_is_recent(number, key, version, following)

    def _check_is_recent(self, number, key, version, following):
        """`following`: the transaction that replaced the version which was read."""
        if following is None or following == number:
            return
        reader, writer = self.transactions[number], self.transactions[following]
        if writer.ended < reader.began:
            self.found.add("stale", f"{reader.name} read {version} in {key}, which {writer.name} had replaced "
                           f"{1000 * (reader.began - writer.ended):.0f} ms before {reader.name} began", (number, following))

    # ---- cycles -----------------------------------------------------------------------------------------------------

    def _find_cycles(self):
        for members in components(self.graph.neighbours(None, {WW, WR, RW})):
            self._classify(set(members))

    def _classify(self, members):
        by_ww = list(components(self.graph.neighbours(members, {WW})))
        by_flow = list(components(self.graph.neighbours(members, {WW, WR})))
        for cycle in by_ww:
            self.found.add("G0", self._describe(cycle), cycle)
        for cycle in by_flow:
            if any(self.graph.edges_within(set(cycle), WR)):
                self.found.add("G1c", self._describe(cycle), cycle)
        flow = self.graph.neighbours(members, {WW, WR})
        single = 0
        for reader, writer in self.graph.edges_within(members, RW):
            path = reaches(flow, writer, reader)
            if path:
                single += 1
                self.found.add("G-single", self._describe([reader, *path[:-1]]), path)
        if not (by_flow or single):
            self.found.add("G2", self._describe(sorted(members)[:8]), sorted(members)[:8])

    def _describe(self, members):
        shown = members[:6]
        around = [*shown[1:], shown[0]]
        steps = []
        for one, other in zip(shown, around):
            kinds = sorted(self.graph.kinds(one, other))
            steps.append(f"{self._name(one)} -{'/'.join(f'{kind}({key})' for kind, key in kinds) or '...'}->")
        return " ".join(steps)
