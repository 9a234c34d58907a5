"""A statement to run on both engines, and what of its answer must agree."""


# After these, SHOW WARNINGS still tells of the statement before, whose warnings may not be compared.
KEEPS_WARNINGS = ("SET ", "COMMIT", "ROLLBACK", "START ", "BEGIN", "SAVEPOINT ", "RELEASE ", "DEALLOCATE ", "XA ")


class Statement:
    """`text` may contain {db}, the database's name, {engine}, and {teak:...}, which only Teak is told.

    ordered: rows must come in the same order. warnings: they are compared. counts: affected rows, insert id and the line of
    information are. rows: only whether the statement fails is compared, not what it returns, where that is False. parameters: rows of values for its '?': it is prepared once and executed with each. then: called when both engines accepted it, to tell the generator's model. checks: it belongs to the
    comparison of whole tables. session: which of two. locks: it may meet a lock of the other session.
    """

    __slots__ = ("text", "ordered", "warnings", "counts", "then", "checks", "parameters", "session", "locks", "rows")

    def __init__(self, text, ordered=False, warnings=True, counts=True, then=None, checks=False, parameters=None, rows=True):
        warnings = warnings and not text.startswith(KEEPS_WARNINGS)
        self.text, self.ordered, self.warnings, self.counts, self.then, self.checks = text, ordered, warnings, counts, then, checks
        self.parameters, self.session, self.locks, self.rows = parameters, 0, False, rows

    def with_text(self, text):
        changed = Statement(text, self.ordered, self.warnings, self.counts, parameters=self.parameters, rows=self.rows)
        changed.session, changed.locks = self.session, self.locks
        return changed
