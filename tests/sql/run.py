"""Runs random schemas and statements on Teak and on InnoDB. Every answer must agree.

1. A private server has both engines, with small caches so that flushes happen, on /dev/shm if it exists.
2. Workers (processes) run worlds. A world is a few tables and some hundred statements, generated from its seed.
3. A difference is run again in empty databases. If InnoDB in a second run, or a third engine, returns Teak's answer (third.py),
   this is printed and counts as agreed. Otherwise the statements are shrunk and printed as a script, with the seed.

  python3 -m tests.sql.run --statements=1000000 --seed=7     1,000,000 statements, compared one by one
  python3 -m tests.sql.run --seconds=60                      for 60 seconds
  python3 -m tests.sql.run --world=7-0-12                    one world again, by the seed that was printed
The run counts as one test.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import sys
import time
import traceback
from pathlib import Path

from tests.harness import Server, finish
from tests.harness.wire import Lost, Session, fields

from .compare import ENGINES, Difference, Open, Pair
from .interleaved import world_of
from .kinds import Kinds
from .schema import Collations
from .shrink import Shrinker, script
from .third import opinion


def read_collations(socket):
    session = Session(socket)
    answer = session.run("SELECT character_set_name, full_collation_name FROM information_schema.collation_character_set_applicability"
                         " WHERE character_set_name <> 'binary'")
    session.close()
    return Collations([tuple(field.decode() for field in fields(row)) for row in answer[2]])


def run_world(pair, world, kinds):
    """Runs one world; returns how many statements agreed, how many of them as errors, and (difference, history) or None."""
    history, errors = [], 0
    settings = world.settings()
    pair.begin(settings)
    for batch in world.batches():
        first = len(history)
        history += batch
        try:
            answers = pair.execute(batch, first)
        except Open:
            pair.end()
            return first, errors, None
        except Difference as difference:
            return len(history), errors, (difference, history)
        errors += sum(answer[0] == "error" for answer in answers)
        kinds.add(batch, answers)
        if batch and batch[-1].then and answers[-1][0] != "error":
            batch[-1].then()
    pair.end()
    return len(history), errors, None


def corrects_its_answer(options, socket, worker, difference, history, settings):
    """Whether InnoDB returns Teak's answer when all statements run again. With keys on virtual columns, InnoDB can miss
    rows while other transactions or its purge run. After its purge has removed wrong entries, only rebuilt keys
    return the right answer."""
    if difference.second is None or not any(" VIRTUAL" in statement.text for statement in history):
        return False
    for attempt in range(15):
        pair = Pair(socket, worker, options.directory)
        try:
            pair.begin(settings)
            pair.execute(history[:difference.number])
            if attempt % 3 == 2:
                pair.rebuild_first()
            answers = pair.execute([difference.statement], difference.number)
            if pair.difference(difference.statement, (answers[-1], None), (difference.second[0], None)) is None:
                return True
        except Difference:
            pass
        finally:
            pair.close()
    return False


def third_opinion(options, socket, worker, difference, history, settings):
    """The engine that returns Teak's answer for the same rows, as text, or None."""
    if difference.second is None:
        return None
    pair = Pair(socket, worker, options.directory)
    try:
        pair.begin(settings)
        pair.execute(history[:difference.number])
        return opinion(pair, difference.statement, difference.second[0])
    except Difference:
        return None
    finally:
        pair.close()


def verdict_of(options, socket, worker, difference, history, settings):
    """The reason why the difference is not a fault of Teak, as text, or None."""
    if corrects_its_answer(options, socket, worker, difference, history, settings):
        return "InnoDB returned another answer in a second run"
    return third_opinion(options, socket, worker, difference, history, settings)


def explain(options, socket, worker, seed, difference, history, settings):
    """The difference as text, with the shortest script found."""
    lines = [f"== difference in world {seed}", difference.why, f"in: {difference.statement.text[:3000]}"]

    def attempt(statements):
        pair = Pair(socket, worker, options.directory)
        try:
            pair.begin(settings)
            pair.execute(statements)
        except Difference as found:
            return found
        finally:
            pair.close()
        return None

    try:
        shortest = Shrinker(attempt, options.tries).shrink(history)
        if shortest is None:
            lines.append("it did not happen again when its statements were run once more")
        else:
            found = attempt(shortest)
            lines += [f"-- {found.why}" if found else "", "-- the shortest script found:", *(statement.text + ";" for statement in settings), script(shortest)]
    except (Lost, RuntimeError) as error:
        lines += [f"not shrunk: {error}", "-- all statements:", script(history)]
    return "\n".join(lines)


def work(options, socket, worker, collations, results, deadline):
    try:
        run_worlds(options, socket, worker, collations, results, deadline)
    except Exception:  # a fault of the generator must not prevent the end of the run
        results.put(("end", 0, 0, 0, [f"worker {worker}: {traceback.format_exc()}"], Kinds()))


def run_worlds(options, socket, worker, collations, results, deadline):
    done, errors, worlds, number, differences, kinds = 0, 0, 0, 0, [], Kinds()
    while (time.monotonic() < deadline if options.seconds else done < options.statements // options.workers):
        seed = options.world or f"{options.seed}-{worker}-{number}"
        number += 1
        world = world_of(seed, collations, options.length, not options.no_alter)
        try:
            pair = Pair(socket, worker, options.directory)
            statements, failed, found = run_world(pair, world, kinds)
            pair.close()
        except (Lost, RuntimeError) as error:
            results.put(("end", done, errors, worlds, differences + [f"world {seed}: {error}"], kinds))
            return
        done += statements
        errors += failed
        results.put(("step", statements, failed))
        verdict = found and verdict_of(options, socket, worker, *found, world.settings())
        if verdict:
            print(f"-- in world {seed} {verdict}: {found[0].statement.text[:200]}", flush=True)
            worlds += 1
        elif found:
            difference, history = found
            text = explain(options, socket, worker, seed, difference, history, world.settings())
            differences.append(text)
            print(text, flush=True)
            if len(differences) >= options.differences:
                break
        else:
            worlds += 1
        if options.world:
            break
    results.put(("end", done, errors, worlds, differences, kinds))


def report(began, done, errors):
    seconds = time.monotonic() - began
    print(f"{done} statements agreed on both engines ({errors} of them as errors), {done / max(seconds, 0.001):.0f} a second", flush=True)


def go(options):
    options.directory = str(Path(options.directory).absolute())
    if not options.keep:
        shutil.rmtree(options.directory, ignore_errors=True)
    Path(options.directory).mkdir(parents=True, exist_ok=True)
    server = Server(Path(options.directory) / "server", [f"--cache={options.cache}", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=64M",
                                                         "--loose-teak-commit-sync=OFF", "--max-connections=200", "--local-infile=1",
                                                         # Settings for reads from both memtables and pages.
                                                         "--loose-teak-checkpoint-period=1", "--loose-teak-open-files=200",
                                                         "--table-open-cache=400", *options.server_option])
    server.stop()
    server.start()
    print(f"-- {ENGINES[0]} and {ENGINES[1]}, seed {options.seed}, {options.workers} workers", flush=True)
    collations = read_collations(server.socket)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    began = time.monotonic()
    deadline = began + options.seconds
    workers = [context.Process(target=work, args=(options, server.socket, worker, collations, results, deadline)) for worker in range(options.workers)]
    for worker in workers:
        worker.start()
    done, errors, worlds, differences, ended, reported, kinds = 0, 0, 0, [], 0, began, Kinds()
    while ended < len(workers):
        result = results.get()
        if result[0] == "step":
            done, errors = done + result[1], errors + result[2]
            if time.monotonic() - reported > 30:
                reported = time.monotonic()
                report(began, done, errors)
        else:
            ended += 1
            worlds += result[3]
            differences += result[4]
            kinds.update(result[5])
    for worker in workers:
        worker.join()
    report(began, done, errors)
    if options.kinds:
        print(kinds.table())
    if server.pid() is None:
        differences.append("the server ended")
    for text in differences:
        if not text.startswith("=="):
            print(text)
    if any(not text.startswith("==") for text in differences):
        print(f"end of the server's error log:\n{server.log_tail(20)}")
    if differences:
        print(f"the server's directory: {options.directory}")
    try:
        server.stop()
    except RuntimeError as error:
        print(error)
        differences.append(str(error))
    if not differences:
        shutil.rmtree(options.directory, ignore_errors=True)
    return finish(not differences, int(bool(differences)), f"{done:,} statements compared", f"{errors:,} of them errors on both engines",
                  f"{worlds} schemas")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=0, help="run this long instead of a number of statements")
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--world", help="the seed of one world, to run it alone")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--length", type=int, default=400, help="statements of a world")
    parser.add_argument("--differences", type=int, default=3, help="stop a worker after this many")
    parser.add_argument("--tries", type=int, default=1500, help="maximum attempts of shrinking one difference")
    parser.add_argument("--cache", default="64M")
    parser.add_argument("--no-alter", action="store_true")
    parser.add_argument("--kinds", action="store_true", help="print how many statements of each kind were accepted and how many failed")
    parser.add_argument("--keep", action="store_true", help="use the server's directory as it is")
    parser.add_argument("--server-option", action="append", default=[])
    memory = Path("/dev/shm")
    parser.add_argument("--directory", default=str((memory if memory.is_dir() else Path("/tmp")) / f"teak-compare-{os.getpid()}"))
    options = parser.parse_args()
    if options.world:
        options.workers = 1
    if options.seconds:
        options.statements = 0
    sys.exit(go(options))


if __name__ == "__main__":
    main()
