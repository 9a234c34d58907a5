"""The engines that the load benchmark compares, some of them in two modes."""

from dataclasses import dataclass, field

FLOOR = "BLACKHOLE"


@dataclass
class Mode:
    """An engine of SQL, the key of its entry in bench.sql.run.ENGINES, and what a session does before and after a load."""
    engine: str
    server: str
    begin: list = field(default_factory=list)
    end: list = field(default_factory=list)
    has_keys: bool = True
    plugin: str = ""


MODES = {
    FLOOR: Mode("BLACKHOLE", "BLACKHOLE"),
    "InnoDB": Mode("InnoDB", "InnoDB"),
    "InnoDB bulk": Mode("InnoDB", "InnoDB", ["SET unique_checks = 0, foreign_key_checks = 0"]),
    "RocksDB": Mode("RocksDB", "RocksDB"),
    # The files are added to the tables when the mode is left.
    "RocksDB bulk": Mode("RocksDB", "RocksDB", ["SET rocksdb_bulk_load_allow_unsorted = 1", "SET rocksdb_bulk_load = 1"],
                         ["SET rocksdb_bulk_load = 0"]),
    "Aria": Mode("Aria", "InnoDB"),
    "ARCHIVE": Mode("ARCHIVE", "InnoDB", has_keys=False, plugin="ha_archive"),
    "Teak": Mode("TEAK", "Teak"),
    # Another build of the plugin, named by --before.
    "Before": Mode("TEAK", "Before"),
}

# The files of tables in the database `bench`, by engine.
FILES = {"InnoDB": ("bench/*.ibd",), "TEAK": ("bench/*.teak",), "RocksDB": ("#rocksdb/*.sst",), "Aria": ("bench/*.MA[ID]",),
         "ARCHIVE": ("bench/*.ARZ",), "BLACKHOLE": ()}
