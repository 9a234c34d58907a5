"""The test trees of tests/server_suites/run.py: the choice of MariaDB's tests, and a copy of them for each engine.

A tree has the layout that the server's test runner expects (mysql-test, or mariadb-test in 11.8, next to lib, bin, sbin and share). Tests and the files that they
include are copied without their recorded results; where they name InnoDB as the engine of a table, the copy for Teak names
Teak. Everything else is a link to the system's files."""

import functools
import os
import re
import shutil
from pathlib import Path

from tests.harness import BUILD, ROOT

from . import cut, own, tables

# Concurrent runs need separate directories.
OUT = Path(os.environ.get("SUITES_DIR", BUILD / "suites"))
CUT = OUT / "cut"  # the tests that were shortened
SYSTEM = tables.SYSTEM

SUITES = ["storage_engine", "engines/iuds", "engines/funcs", "parts", "versioning", "period", "gcol", "vcol", "sql_sequence",
          "compat/maxdb", "compat/mssql", "compat/oracle", "funcs_1", "funcs_2", "handler", "jp", "json", "optimizer_unfixed_bugs",
          "stress", "sys_vars", "type_inet", "type_uuid", "main"]
# Tests of plugins that the server is built with.
PLUGINS = ["type_inet", "type_uuid"]
# Suites that are run only by name. Only tests that require InnoDB are run; the others test the binary log and not an
# engine.
REPLICATION = ["rpl", "binlog"]
NOT_HERE = re.compile(r"have_debug|debug_sync|big_test")

# Tests of `main` that depend on the engine. The others test accounts, clients, logs, other engines and similar
# features.
MAIN = re.compile(
    r"^(alter_table|alter_|type_|ctype_|cast|case|join|subselect|subquery|group_by|group_min|group_concat|olap|order_by|"
    r"range|index_merge|index_intersect|partition|func_|insert|update|delete|replace|union|intersect|except|view|trigger|"
    r"sp|ps|cte|win|distinct|having|key|null|limit|multi_update|multi_statement|count_distinct|derived|explain|select|"
    r"temp_table|truncate|auto_increment|bigint|create|default|check_constraint|check|lock|handler|long_unique|invisible|"
    r"ignored_index|mrr|row|odbc|bool|binary|varbinary|comment|compare|column_compression|constraints|concurrent|"
    r"consistent|date|desc_index|drop|dirty|empty|errors|ext_key|fast_prefix|features|filesort|find|fetch|fulltext_|"
    r"greedy|huge|identity|in_|item|keyread|last|leaks|loaddata|load|locking|max_|mdl|metadata|mix|multi|natural|negation|"
    r"nested|none|not_|opt_|parser|precedence|prepare|preload|query_|repair|rename|rollback|round|rowid_filter|rownum|"
    r"secondary|selectivity|sequence|signal|single|stat_tables|statistics|statement-expr|strict|str_to|strings|subst|sum_|"
    r"table_|table_value|temporal|timezone|tmp|trans|unique|unsafe|upgrade|user_var|variables|warnings|adddate|alias|"
    r"almost|analyze|ansi|assign|bulk|bench|brackets|bug|chained|commit|compound|cond|count|create|custom|deadlock|ddl|"
    r"endspace|enforce|except|execution|flush|get|implicit|information_schema|innodb_|savepoint|xa|foreign|show|"
    r"backup_(interaction|lock|stages)|cache_temporal|client|compress|cset_|deprecated|dyncol|events_|function_defaults|gcc296|"
    r"gis|json_|kill|lowercase_|mdev|mysql(check|dump|show)|mysql_(cp932|binary)|name_const|old-mode|outfile|pool_of_threads|"
    r"progress|quick_select|read_|reopen|schema|set_|simultaneous|skip_log_bin|sql_|stack$|status|synchronization|tablelock|"
    r"tablespace|timeout|udf|userstat|xml)")
MAIN_NOT = re.compile(
    r"(myisam|(?<![vm])aria|archive|csv|blackhole|federated|ssl|(?<!index_)merge$|_merge-|locale|debug|grant|roles|"
    r"cache_innodb|cache_notembedded|innodb_mysql_lock2$|bootstrap|upgrade_|partition_open_files|_big(?!5)|-big|profiling|plugin|"
    r"query_cache|qcache|flush_ssl|shutdown|information_schema_(prepare|stats)|mysqldump-(header|max|system|timing)|events_slowlog|"
    r"select_host_cache|show_bad|password|user_limits)")
# Tests of `sys_vars` about settings that affect statements, tables and transactions.
SYS_VARS = re.compile(r"^(\w+_func\d?|explicit_defaults_for_timestamp_\w+|secure_timestamp_(no|super|yes)|max_statement_time_basic|old_mode_basic)$")
SYS_VARS_NOT = re.compile(r"^(innodb_|myisam_|query_cache_|key_buffer_|delay_key_|delayed_|ft_|rpl_|log_|general_log_|slow_query_log_|"
                          r"concurrent_insert_|interactive_timeout_)")

COPIED = {".test", ".inc", ".opt", ".cnf", ".combinations", ".pm", ".sh", ".def", ".sql", ".pl"}

# `ENGINE=InnoDB`, `engine_type= 'innodb'`, `default-storage-engine=innodb`, `if ($engine == "'InnoDB'")`, not SHOW ENGINE INNODB STATUS.
NAMED = re.compile(rb"(engine\w*(?:['\"]?\s*(?:[!=]=|:?=)\s*['\"`]*|\s+['\"`]?))innodb\b(?!\s+(?:status|mutex)|_|/)", re.IGNORECASE)
# Tables in conditions that tests wait for, and a condition on a column that Teak's tables do not have.
SHOWN = re.compile(rb"(?<=information_schema\.)innodb_(trx|lock_waits)\b", re.IGNORECASE)
STATE = re.compile(rb"\btrx_operation_state\s*=\s*'[^']*'\s+and\s+", re.IGNORECASE)
# Lines with SHOW ENGINE: the engine that they name is not replaced.
ANSWER = re.compile(rb"show\s+engine\s", re.IGNORECASE)
ANSWERS = re.compile(rb"(^[^\n]*show\s+engine\s[^\n]*\n)", re.IGNORECASE | re.MULTILINE)

# A section of a combinations file that only selects another engine.
OTHER_ENGINE = re.compile(r"\[\w+\]\s+((skip-innodb|innodb|partition)\s+)*default-storage-engine=(myisam|aria|memory)\s+(partition\s*)?")


def aim(text: bytes, engine: str) -> bytes:
    if engine.lower() == "innodb":
        return text
    text = b"".join(part if ANSWER.search(part) else NAMED.sub(rb"\g<1>" + engine.encode(), part) for part in ANSWERS.split(text))
    return STATE.sub(b"", SHOWN.sub(rb"teak_\1", text)) if b"information_schema" in text.lower() else text


def one_engine(text: str) -> str:
    """A file of combinations without those that only select another engine. The runner gets the engine as an option, so
    they would only repeat the tests."""
    head, *sections = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    kept = [section for section in sections if not OTHER_ENGINE.fullmatch(section)]
    return head + "".join(kept or sections)


def link(source: Path, target: Path):
    if not target.is_symlink() and not target.exists():
        target.symlink_to(source)


def copy(source: Path, target: Path, engine: str) -> set[Path]:
    """Copies a directory of tests without their results; data files are linked. Returns the copies that were shortened."""
    target.mkdir(parents=True, exist_ok=True)
    changed = set()
    for entry in sorted(source.iterdir()):
        if entry.suffix in (".result", ".rdiff", ".reject") or entry.name == "r":
            continue
        if entry.is_dir():
            changed |= copy(entry, target / entry.name, engine)
        elif entry.suffix in COPIED or entry.name == "combinations":
            text = aim(entry.read_bytes(), engine)
            if entry.suffix in (".test", ".inc") and (rest := cut.cut(text)) != text:
                text = rest
                changed.add(target / entry.name)
            if entry.suffix == ".opt":
                text = own.SETTING.sub(b"", text)
            if entry.name.endswith("combinations"):
                text = one_engine(text.decode()).encode()
            (target / entry.name).write_bytes(text)
            shutil.copymode(entry, target / entry.name)
        else:
            link(entry.resolve(), target / entry.name)
    return changed


def runnable_again(overlay: Path):
    """Enables tests that are disabled because of their recorded results: here only outputs are compared."""
    for path in overlay.rglob("disabled.def"):
        kept = [line for line in path.read_text().splitlines() if not re.search(r"MDEV-(9705|10252)|MySQL:65901", line)]
        path.write_text("\n".join(kept) + "\n")


def make(engine: str) -> Path:
    """Creates the tree of an engine again and returns it."""
    tree = OUT / f"tree-{engine}"
    shutil.rmtree(tree, ignore_errors=True)
    plugins = tree / "lib/mysql/plugin"
    plugins.mkdir(parents=True)
    for plugin in Path("/usr/lib/mysql/plugin").iterdir():
        link(plugin, plugins / plugin.name)
    link(Path(os.environ.get("TEAK_PLUGIN", BUILD / "ha_teak.so")), plugins / "ha_teak.so")
    for name in ("bin", "sbin", "share"):
        link(Path("/usr") / name, tree / name)
    for entry in Path("/usr/lib").iterdir():
        if entry.name != "mysql":
            link(entry, tree / "lib" / entry.name)

    tests = tree / SYSTEM.name
    changed = set()
    for entry in SYSTEM.iterdir():
        if entry.name in ("main", "include"):
            changed |= copy(entry, tests / entry.name, engine)
        elif entry.name not in ("suite", "plugin"):
            tests.mkdir(exist_ok=True)
            link(entry, tests / entry.name)
    copied = {suite.split("/")[0] for suite in SUITES + REPLICATION}
    (tests / "suite").mkdir()
    for entry in (SYSTEM / "suite").iterdir():
        if entry.name in copied:
            changed |= copy(entry, tests / "suite" / entry.name, engine)
        else:
            link(entry, tests / "suite" / entry.name)
    overlays = {"innodb": SYSTEM / "plugin/innobase", "teak": ROOT / "mtr/overlay/teak"}
    copy(overlays[engine], tests / "plugin" / engine, engine)
    for plugin in PLUGINS:
        changed |= copy(SYSTEM / "plugin" / plugin, tests / "plugin" / plugin, engine)
    runnable_again(tests / "suite/storage_engine")
    runnable_again(tests / "plugin" / engine)
    CUT.write_text("\n".join(cut.touched(tests, changed)) + "\n")
    return tree


def folder_of(suite: str) -> Path:
    """The directory of a suite."""
    return SYSTEM / (suite if suite == "main" else f"plugin/{suite}/{suite}" if suite in PLUGINS else f"suite/{suite}")


def place_of(test: str) -> Path | None:
    """The file of a test, SUITE.NAME."""
    suite, _, name = test.partition(".")
    places = [folder / f"{name}.test" for folder in (folder_of(suite), folder_of(suite) / "t")]
    return next((place for place in places if place.exists()), None)


@functools.cache
def is_about_innodb(test: str) -> bool:
    """Whether a test, SUITE.NAME, is specific to InnoDB (own.py)."""
    if (place := place_of(test)) is None:
        return False
    options = place.with_suffix(".opt")
    return own.is_about(place.read_text("latin-1"), options.read_text("latin-1") if options.exists() else "")


@functools.cache
def is_of_other_engines(test: str) -> bool:
    """Whether a test, SUITE.NAME, creates no table of the engine under test (tables.py). False for tests of
    storage_engine, which are written for any engine, and of replication, which are selected by their requirements."""
    suite = test.partition(".")[0]
    if suite.startswith("storage_engine") or suite in REPLICATION or (place := place_of(test)) is None:
        return False
    return not tables.makes_tables(place, folder_of(suite))


def left_out(suite: str) -> list[str]:
    """The names of the tests of a suite that are not counted."""
    names = {path.stem for path in folder_of(suite).rglob("*.test")}
    return sorted(name for name in names if is_about_innodb(f"{suite}.{name}") or is_of_other_engines(f"{suite}.{name}"))


def tests_of(suite: str, engine: str) -> tuple[list[str], list[str]]:
    """The runner's --suite and the names of tests for it (empty: all)."""
    if suite == "storage_engine":
        return [f"storage_engine-{engine}", f"storage_engine/parts-{engine}", f"storage_engine/trx-{engine}"], []
    if suite in REPLICATION:
        texts = {path.stem: path.read_text(errors="replace") for path in sorted((SYSTEM / f"suite/{suite}/t").glob("*.test"))}
        return [suite], [f"{suite}.{name}" for name, text in texts.items() if "have_innodb.inc" in text and not NOT_HERE.search(text)]
    if suite not in ("main", "sys_vars"):
        return [suite], []
    wanted, unwanted = (MAIN, MAIN_NOT) if suite == "main" else (SYS_VARS, SYS_VARS_NOT)
    names = sorted(path.stem for path in folder_of(suite).rglob("*.test"))
    return [suite], [f"{suite}.{name}" for name in names if wanted.match(name) and not unwanted.search(name)]
