"""The last lines of every test program: its amount of work, in its own unit, and its number of tests, which `make test`
adds up."""


def finish(passed, failed, *amounts):
    """Prints `ran: AMOUNT, AMOUNT` and `N passed, M failed` as the last two lines; returns the exit status."""
    if amounts:
        print("ran: " + ", ".join(amounts))
    print(f"{int(passed)} passed, {int(failed)} failed", flush=True)
    return 1 if failed or not passed else 0
