"""Tables of other engines: all column types and kinds of definitions."""

from tests.backup.names import DATABASE as HOSTILE, TABLES as HOSTILE_TABLES
from tests.harness import quoted_name

DATABASE = "shop"
ROWS = 3000

COLUMNS = """
  id INT AUTO_INCREMENT PRIMARY KEY, n1 TINYINT UNSIGNED, n2 SMALLINT ZEROFILL, n3 MEDIUMINT, n4 BIGINT UNSIGNED NOT NULL, n5 BIT(13), n6 BOOLEAN,
  d1 DECIMAL(30,10), d2 DECIMAL(5,0) UNSIGNED, f1 FLOAT, f2 DOUBLE, t1 DATE, t2 DATETIME(6), t3 TIMESTAMP NULL, t4 TIME(3), t5 YEAR,
  c1 CHAR(20) CHARACTER SET utf8mb4, c2 VARCHAR(300) COLLATE utf8mb4_bin, c3 BINARY(16), c4 VARBINARY(50), c5 TEXT, c6 MEDIUMBLOB, c7 JSON,
  c8 VARCHAR(20) CHARACTER SET sjis, e1 ENUM('a','b''c') DEFAULT 'a', e2 SET('x','y','z'), u1 UUID, i6 INET6, g1 POINT, g2 GEOMETRY NOT NULL,
  v1 INT AS (n1 + 1) VIRTUAL, v2 VARCHAR(400) AS (CONCAT(c2, '!')) STORED, h1 INT INVISIBLE DEFAULT 5, z1 VARCHAR(1000) COMPRESSED,
  CHECK (n1 < 250), KEY (n4), UNIQUE KEY (c3), KEY (v1), KEY (c1(3) DESC, t2)
"""

# Names of tables and their definitions, without the foreign keys.
TABLES = {
    "everything": f"({COLUMNS}) ENGINE=InnoDB COMMENT='a ''comment'' with \\\\ and DATA DIRECTORY=\\'x\\''",
    "parts": "(id INT PRIMARY KEY, a VARCHAR(20), KEY (a)) ENGINE=InnoDB PARTITION BY RANGE (id)"
             " (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "keyless": "(a INT, b CHAR(3), KEY (b)) ENGINE=InnoDB",
    "not_null": "(a INT NOT NULL PRIMARY KEY, b CHAR(8) NOT NULL) ENGINE=InnoDB ROW_FORMAT=REDUNDANT",
    "compressed": "(id INT PRIMARY KEY, a VARCHAR(100), b BIT(3), c BIT(7)) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8",
    "page_compressed": "(id INT PRIMARY KEY, a VARCHAR(100)) ENGINE=InnoDB PAGE_COMPRESSED=1",
    "dynamic": "(id INT PRIMARY KEY, a INT, b INT) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "isam": "(id INT PRIMARY KEY, a INT, b CHAR(5)) ENGINE=MyISAM ROW_FORMAT=FIXED CHECKSUM=1",
    "isam_bits": "(id INT PRIMARY KEY, a BIT(3), b BIT(17) NOT NULL, c INT AS (id + a) VIRTUAL) ENGINE=MyISAM",
    "isam_dynamic": "(id INT PRIMARY KEY, a VARCHAR(50), b BLOB) ENGINE=MyISAM DELAY_KEY_WRITE=1",
    "aria": "(id INT PRIMARY KEY, a INT, b VARCHAR(5)) ENGINE=Aria TRANSACTIONAL=1",
    "aria_fixed": "(id INT PRIMARY KEY, a INT, b CHAR(5)) ENGINE=Aria ROW_FORMAT=FIXED PAGE_CHECKSUM=0",
    "versioned": "(id INT PRIMARY KEY, a INT) ENGINE=Aria WITH SYSTEM VERSIONING",
    "zero": "(id INT AUTO_INCREMENT PRIMARY KEY, a DATE NOT NULL DEFAULT '0000-00-00', b DATETIME NOT NULL) ENGINE=InnoDB",
    "empty": "(id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB AUTO_INCREMENT=77",
}
# What Teak refuses, and the text that says why.
REFUSED = {
    "parent": ("(id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=InnoDB", "FOREIGN KEY to_parent of shop.child refers to it"),
    "child": ("(id INT PRIMARY KEY, p INT, CONSTRAINT to_parent FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE,"
              " CONSTRAINT to_self FOREIGN KEY (p) REFERENCES child (id)) ENGINE=InnoDB", "FOREIGN KEY to_self (--drop-foreign-keys drops it)"),
    "texts": ("(id INT PRIMARY KEY, a TEXT, FULLTEXT KEY words (a)) ENGINE=InnoDB", "FULLTEXT KEY words (--drop-fulltext-and-spatial-keys drops it)"),
    "shapes": ("(id INT PRIMARY KEY, a POINT NOT NULL, SPATIAL KEY places (a)) ENGINE=MyISAM", "SPATIAL KEY places (--drop-fulltext-and-spatial-keys drops it)"),
}
# What no option converts.
REMAINING = {
    "merged": ("(id INT PRIMARY KEY) ENGINE=MyISAM", "it is part of the MERGE table shop.merge_of_it"),
    "history": ("(id INT PRIMARY KEY, a INT) ENGINE=InnoDB WITH SYSTEM VERSIONING", "the server does not change the engine of a table of InnoDB WITH SYSTEM VERSIONING"),
}
SEQUENCE = "numbers"


def create(connection):
    """Creates and fills all tables, with triggers, a view and a grant."""
    connection.run("SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")
    connection.run(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    connection.run(f"USE {DATABASE}")
    tables = {**TABLES, **{name: definition for name, (definition, _) in {**REFUSED, **REMAINING}.items()}}
    for name, definition in tables.items():
        connection.run(f"CREATE TABLE {name} {definition}")
    connection.run(f"CREATE TABLE merge_of_it (id INT PRIMARY KEY) ENGINE=MERGE UNION=(merged) INSERT_METHOD=LAST")
    fill(connection)
    connection.run("CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(50)) ENGINE=MEMORY")
    connection.run("CREATE TRIGGER changed BEFORE UPDATE ON dynamic FOR EACH ROW SET NEW.b = OLD.b + 1000")
    connection.run("CREATE TRIGGER inserted AFTER INSERT ON dynamic FOR EACH ROW INSERT INTO audit (what) VALUES ('insert')")
    connection.run("CREATE VIEW extremes AS SELECT MAX(id) AS m, SUM(a) AS s FROM dynamic")
    connection.run(f"GRANT SELECT, UPDATE (a) ON {DATABASE}.dynamic TO reader@localhost IDENTIFIED BY 'p'")
    connection.run(f"CREATE SEQUENCE {SEQUENCE} START WITH 5 ENGINE=InnoDB")
    connection.run(f"SELECT NEXTVAL({SEQUENCE})")
    connection.run(f"CREATE DATABASE {quoted_name(HOSTILE)}")
    for name in HOSTILE_TABLES:
        connection.run(f"CREATE TABLE {quoted_name(HOSTILE)}.{quoted_name(name)} (id INT PRIMARY KEY, `c``'\"\\\\; --` TEXT) ENGINE=InnoDB")
        connection.run(f"INSERT INTO {quoted_name(HOSTILE)}.{quoted_name(name)} VALUES (1, 'a'), (2, NULL)")


def fill(connection):
    numbers = f"seq_1_to_{ROWS}"
    connection.run(f"""INSERT INTO everything (n1, n2, n3, n4, n5, n6, d1, d2, f1, f2, t1, t2, t3, t4, t5, c1, c2, c3, c4, c5, c6, c7, c8, e1, e2, u1, i6, g1, g2, h1, z1)
        SELECT NULLIF(seq % 200, 3), -(seq % 30), seq, seq * 12345678901, seq % 8000, seq % 2, seq / 7, NULLIF(seq % 90000, 5), seq / 3, -seq / 3,
               DATE'2000-01-01' + INTERVAL seq DAY, '2000-01-01 00:00:00.000001' + INTERVAL seq HOUR, FROM_UNIXTIME(seq * 1000), SEC_TO_TIME(seq), 1950 + seq % 150,
               CONCAT('é', seq), REPEAT('x ', seq % 100), UNHEX(MD5(seq)), IF(seq % 5, UNHEX(HEX(seq)), ''), REPEAT(MD5(seq), seq % 40), REPEAT(UNHEX(SHA1(seq)), seq % 50),
               JSON_OBJECT('a', seq), 'ソ', IF(seq % 2, 'a', 'b''c'), seq % 8, UUID(), CONCAT('::', seq), POINT(seq, -seq), POINT(0, seq), seq, REPEAT('z', seq % 900)
        FROM {numbers}""")
    connection.run("UPDATE everything SET id = 0 WHERE id = 1")  # a value that ALTER TABLE must not replace
    for name in ("parts", "compressed", "page_compressed"):
        connection.run(f"INSERT INTO {name} (id, a) SELECT seq, IF(seq % 7, MD5(seq), NULL) FROM {numbers}".replace("MD5(seq)", "LEFT(MD5(seq), 20)"))
    connection.run(f"INSERT INTO keyless SELECT seq % 10, NULLIF('a', IF(seq % 2, 'a', 'b')) FROM {numbers}")
    connection.run(f"INSERT INTO not_null SELECT seq, seq FROM {numbers}")
    connection.run(f"UPDATE compressed SET b = id % 8, c = NULLIF(id % 128, 5)")
    for name in ("dynamic", "isam", "aria", "aria_fixed"):
        connection.run(f"INSERT INTO {name} SELECT seq, NULLIF(seq % 11, 4), NULLIF(seq % 13, 5) FROM {numbers}")
    connection.run(f"INSERT INTO isam_bits (id, a, b) SELECT seq, NULLIF(seq % 8, 3), seq FROM {numbers}")
    connection.run(f"INSERT INTO isam_dynamic SELECT seq, REPEAT('a', seq % 50), REPEAT(UNHEX(MD5(seq)), seq % 20) FROM {numbers}")
    connection.run(f"INSERT INTO versioned SELECT seq, seq FROM {numbers}")
    connection.run("UPDATE versioned SET a = a + 1 WHERE id % 3 = 0")
    connection.run("DELETE FROM versioned WHERE id % 5 = 0")
    connection.run("INSERT INTO zero VALUES (0, '0000-00-00', '2001-02-31 00:00:00'), (5, '2000-00-00', '0000-00-00')")
    connection.run("INSERT INTO parent SELECT seq, seq FROM seq_1_to_100")
    connection.run("INSERT INTO child SELECT seq, NULL FROM seq_1_to_100")
    connection.run("UPDATE child SET p = id")
    connection.run("INSERT INTO texts VALUES (1, 'some words')")
    connection.run("INSERT INTO shapes VALUES (1, POINT(1, 2))")
    connection.run("INSERT INTO merged VALUES (1), (2)")


def tables():
    """All tables that can be converted without dropping anything, quoted."""
    own = [f"{quoted_name(DATABASE)}.{quoted_name(name)}" for name in TABLES]
    return own + [f"{quoted_name(HOSTILE)}.{quoted_name(name)}" for name in HOSTILE_TABLES]


def contents(connection, table):
    """The definition of a table without its engine, and its rows."""
    history = " FOR SYSTEM_TIME ALL" if "versioned" in table else ""
    columns = "*, h1, HEX(c1), HEX(g1)" if "everything" in table else "*"
    rows = connection.run(f"SELECT {columns} FROM {table}{history}")
    definition = connection.run(f"SHOW CREATE TABLE {table}")[0][1]
    return sorted(rows, key=repr), definition


def engine(connection, table):
    """The engine of a table, according to its definition."""
    definition = connection.run(f"SHOW CREATE TABLE {table}")[0][1].decode()
    return definition.rsplit("\n) ENGINE=", 1)[1].split()[0]
