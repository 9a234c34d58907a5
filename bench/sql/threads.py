"""Threads with a connection each."""

import threading


def in_parallel(server, database, count, work):
    """Calls work(connection, number) in `count` threads, each with its own connection; returns the open connections. Raises
    the first exception of a thread, after all have ended."""
    connections = [server.connect(database) for _ in range(count)]
    failures = []

    def run(number):
        try:
            work(connections[number], number)
        except Exception as error:  # raised again below
            failures.append(error)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return connections
