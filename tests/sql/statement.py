"""A statement to run on both engines, and the parts of its answer that are compared."""


# After these statements, SHOW WARNINGS still returns the warnings of the previous statement, which may be excluded from
# comparison.
RETAINS_WARNINGS = ("SET ", "COMMIT", "ROLLBACK", "START ", "BEGIN", "SAVEPOINT ", "RELEASE ", "DEALLOCATE ", "XA ")


class Statement:
    """`text` may contain {db}, the database's name, {engine}, {run}, the run's directory, and {teak:...}, which is sent
    to Teak only.

    ordered: the order of rows is compared. warnings: they are compared. counts: affected rows, insert id and the
    line of information are compared. rows: the result is compared; otherwise only whether the statement fails.
    parameters: rows of values for its '?'; the statement is prepared once and executed with each row. then: called
    if both engines accepted the statement, to update the generator's model. checks: the statement is part of the
    comparison of whole tables. session: 0 or 1. locks: it may conflict with a lock of the other session.
    """

    __slots__ = ("text", "ordered", "warnings", "counts", "then", "checks", "parameters", "session", "locks", "rows")

    def __init__(self, text, ordered=False, warnings=True, counts=True, then=None, checks=False, parameters=None, rows=True):
        warnings = warnings and not text.startswith(RETAINS_WARNINGS)
        self.text, self.ordered, self.warnings, self.counts, self.then, self.checks = text, ordered, warnings, counts, then, checks
        self.parameters, self.session, self.locks, self.rows = parameters, 0, False, rows

    def with_text(self, text):
        changed = Statement(text, self.ordered, self.warnings, self.counts, parameters=self.parameters, rows=self.rows)
        changed.session, changed.locks = self.session, self.locks
        return changed
