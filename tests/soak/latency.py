"""Latencies of statements, counted in buckets, and the samples that the sessions send to the run."""

import math
import time

BUCKETS_PER_DOUBLING = 4
SMALLEST = 1e-6
REPORT_SECONDS = 1


def bucket(seconds):
    return max(0, int(math.log2(max(seconds, SMALLEST) / SMALLEST) * BUCKETS_PER_DOUBLING))


def upper_end(number):
    """The longest latency, in seconds, that a bucket counts."""
    return SMALLEST * 2 ** ((number + 1) / BUCKETS_PER_DOUBLING)


class Histogram:
    """Counts of latencies in buckets, four for each doubling of the latency, and the longest latency."""

    def __init__(self):
        self.counts = {}
        self.longest = 0.0

    def add(self, seconds):
        number = bucket(seconds)
        self.counts[number] = self.counts.get(number, 0) + 1
        self.longest = max(self.longest, seconds)

    def merge(self, counts, longest):
        for number, count in counts.items():
            self.counts[number] = self.counts.get(number, 0) + count
        self.longest = max(self.longest, longest)

    def total(self):
        return sum(self.counts.values())

    def quantile(self, share):
        """The latency that this share of the latencies does not exceed, rounded up to the end of its bucket (but not above
        the longest latency); 0 without latencies."""
        rest = share * self.total()
        for number in sorted(self.counts):
            rest -= self.counts[number]
            if rest <= 0:
                return min(upper_end(number), self.longest)
        return self.longest


class Meter:
    """Measures the successful statements of one session and sends the counts to the run once a second."""

    def __init__(self, queue, name):
        self.queue, self.name = queue, name
        self.histogram = Histogram()
        self.next_report = time.monotonic() + REPORT_SECONDS

    def run(self, connection, statement):
        began = time.monotonic()
        answer = connection.run(statement)
        ended = time.monotonic()
        self.histogram.add(ended - began)
        if ended >= self.next_report:
            self.report()
        return answer

    def report(self):
        self.queue.put((self.name, self.histogram.counts, self.histogram.longest))
        self.histogram = Histogram()
        self.next_report = time.monotonic() + REPORT_SECONDS
