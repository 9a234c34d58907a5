"""The engines that the benchmarks of loads and of space compare, some of them in several modes."""

from dataclasses import dataclass, field

from tests.harness import ROOT

FLOOR = "BLACKHOLE"

# Keys of the plugin that the package of the server contains.
KEYS = ["--plugin-load-add=file_key_management", f"--loose-file-key-management-filename={ROOT}/mtr/suite/teak/t/encryption_keys.txt"]


@dataclass
class Mode:
    """An engine of SQL, the key of its entry in bench.sql.run.ENGINES, what a session does before and after a load, options of
    its tables, and options of the server, in which {cache} is the size of the cache."""
    engine: str
    server: str
    begin: list = field(default_factory=list)
    end: list = field(default_factory=list)
    has_keys: bool = True
    table: str = ""
    options: list = field(default_factory=list)

    def of_table(self):
        """What follows ENGINE= in a CREATE TABLE."""
        return f"{self.engine} {self.table}".strip()

    def server_options(self, cache):
        return [option.format(cache=cache) for option in self.options]


MODES = {
    FLOOR: Mode("BLACKHOLE", "BLACKHOLE"),
    "InnoDB": Mode("InnoDB", "InnoDB"),
    "InnoDB compressed": Mode("InnoDB", "InnoDB", table="ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8"),
    "InnoDB page": Mode("InnoDB", "InnoDB", table="PAGE_COMPRESSED=1"),
    "InnoDB bulk": Mode("InnoDB", "InnoDB", ["SET unique_checks = 0, foreign_key_checks = 0"]),
    "RocksDB": Mode("RocksDB", "RocksDB"),
    "RocksDB zstd": Mode("RocksDB", "RocksDB", options=["--rocksdb-default-cf-options=compression=kZSTD;bottommost_compression=kZSTD"]),
    # The files are added to the tables when the mode is left.
    "RocksDB bulk": Mode("RocksDB", "RocksDB", ["SET rocksdb_bulk_load_allow_unsorted = 1", "SET rocksdb_bulk_load = 1"],
                         ["SET rocksdb_bulk_load = 0"]),
    "Aria": Mode("Aria", "InnoDB", options=["--aria-pagecache-buffer-size={cache}"]),
    "ARCHIVE": Mode("ARCHIVE", "InnoDB", has_keys=False, options=["--plugin=ha_archive"]),
    "InnoDB encrypted": Mode("InnoDB", "InnoDB", options=[*KEYS, "--innodb-encrypt-tables=ON", "--innodb-encrypt-log=ON"]),
    "Teak": Mode("TEAK", "Teak"),
    "Teak encrypted": Mode("TEAK", "Teak", options=[*KEYS, "--teak-encrypt-tables=ON", "--teak-encrypt-log=ON"]),
    **{f"Teak {codec}": Mode("TEAK", "Teak", table=f"COMPRESSION={codec}") for codec in ("none", "lz4", "snappy", "zlib", "lzma")},
    # Another build of the plugin, named by --before.
    "Before": Mode("TEAK", "Before"),
}

# The files of tables in the database `bench`, by engine.
FILES = {"InnoDB": ("bench/*.ibd",), "TEAK": ("bench/*.teak",), "RocksDB": ("#rocksdb/*.sst",), "Aria": ("bench/*.MA[ID]",),
         "ARCHIVE": ("bench/*.ARZ",), "BLACKHOLE": ()}


def modes_of(parser, options, more=()):
    """The names of the engines in the options, in any case, as in MODES or in `more`."""
    names = [*MODES, *more]
    by_name = {name.lower(): name for name in names} | {"myrocks": "RocksDB", "myrocks zstd": "RocksDB zstd"}
    engines = [by_name.get(name.strip().lower()) or parser.error(f"unknown engine {name}: {', '.join(names)}")
               for name in options.engines.split(",")]
    if ("Before" in engines) != bool(options.before):
        parser.error("--before names the plugin of the engine Before")
    return engines


def add_arguments(parser, engines, cases):
    """The arguments that benchmarks of several engines and cases have in common."""
    parser.add_argument("--cache", default="256M")
    parser.add_argument("--engines", default=engines)
    parser.add_argument("--cases", default=",".join(cases))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--before", help="another build of the plugin, measured as engine Before")
    parser.add_argument("--server-option", action="append", default=[], help="for every server, may be repeated")


def cases_of(parser, options, cases):
    """The cases in the options."""
    return [cases.get(name) or parser.error(f"unknown case {name}: {', '.join(cases)}") for name in options.cases.split(",")]
