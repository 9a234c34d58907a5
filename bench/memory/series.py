"""The statements of a run, with their times: rates by second and by tenth, gaps, quantiles."""

import threading
from array import array

TENTHS = 10


def quantile(values, share):
    """The value that this share of the values does not exceed; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Series:
    """For each statement the time of its end since the start of the run, its duration, and the rows that it wrote.
    Threads append to it."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.ends, self.durations, self.rows = array("d"), array("d"), array("q")

    def add(self, end, duration, rows):
        with self.mutex:
            self.ends.append(end)
            self.durations.append(duration)
            self.rows.append(rows)

    def total(self):
        return sum(self.rows)

    def seconds(self):
        return max(self.ends, default=0.0)

    def by_end(self):
        """(end, duration, rows) of the statements, in the order of their ends."""
        return sorted(zip(self.ends, self.durations, self.rows))

    def tenths(self):
        """The rate in each tenth of the rows, in rows per second. A statement counts in the tenth in which it ends."""
        total, begun, done, counted, rates = self.total(), 0.0, 0, 0, []
        for end, _, rows in self.by_end():
            done += rows
            while len(rates) < TENTHS and done * TENTHS >= total * (len(rates) + 1) and end > begun:
                rates.append((done - counted) / (end - begun))
                begun, counted = end, done
        return rates

    def per_second(self):
        """For each second (second, rows, statements, longest duration) of the statements that ended in it."""
        found = [[second, 0, 0, 0.0] for second in range(int(self.seconds()) + 1 if self.ends else 0)]
        for end, duration, rows in zip(self.ends, self.durations, self.rows):
            second = found[int(end)]
            second[1] += rows
            second[2] += 1
            second[3] = max(second[3], duration)
        return found

    def seconds_without_progress(self):
        """Whole seconds in which no statement ended. The last one is cut short by the end of the run."""
        return sum(statements == 0 for _, _, statements, _ in self.per_second())

    def longest_gap(self):
        """The longest time between the ends of two statements of any threads, in seconds."""
        longest, before = 0.0, 0.0
        for end in sorted(self.ends):
            longest, before = max(longest, end - before), end
        return longest

    def result(self):
        """The figures of a run."""
        rates = self.tenths()
        found = {"rows": self.total(), "seconds": self.seconds(), "rows_per_second": self.total() / self.seconds(),
                 "seconds_without_progress": self.seconds_without_progress(), "longest_gap": self.longest_gap(),
                 "p999": quantile(self.durations, 0.999), "longest": max(self.durations)}
        if len(rates) == TENTHS:
            found.update(first_tenth=rates[0], second_tenth=rates[1], last_tenth=rates[-1], last_to_second=rates[-1] / rates[1])
        return found
