"""The tables that the benchmarks load: CREATE TABLE for the shapes that teak-generate writes."""

STAR_COLUMNS = """
    lo_orderkey INT UNSIGNED NOT NULL,
    lo_linenumber TINYINT UNSIGNED NOT NULL,
    lo_custkey INT UNSIGNED NOT NULL,
    lo_partkey INT UNSIGNED NOT NULL,
    lo_suppkey INT UNSIGNED NOT NULL,
    lo_orderdate INT UNSIGNED NOT NULL,
    lo_orderpriority CHAR(15) NOT NULL,
    lo_shippriority CHAR(1) NOT NULL,
    lo_quantity TINYINT UNSIGNED NOT NULL,
    lo_extendedprice INT UNSIGNED NOT NULL,
    lo_ordtotalprice INT UNSIGNED NOT NULL,
    lo_discount TINYINT UNSIGNED NOT NULL,
    lo_revenue INT UNSIGNED NOT NULL,
    lo_supplycost INT UNSIGNED NOT NULL,
    lo_tax TINYINT UNSIGNED NOT NULL,
    lo_commitdate INT UNSIGNED NOT NULL,
    lo_shipmode CHAR(10) NOT NULL,
    lo_comment TEXT NOT NULL"""

STAR_KEYS = """,
    KEY (lo_custkey), KEY (lo_partkey), KEY (lo_suppkey), KEY (lo_orderdate)"""

PURCHASES_COLUMNS = """
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    at DATETIME NOT NULL,
    register INT UNSIGNED NOT NULL,
    customer INT UNSIGNED NOT NULL,
    product INT UNSIGNED NOT NULL,
    price DECIMAL(8,2) NOT NULL,
    data VARCHAR(60) NOT NULL,
    PRIMARY KEY (id)"""

# The three secondary keys of the insert benchmark. The first column of each is random.
PURCHASES_KEYS = """,
    KEY (price, customer), KEY (register, price, customer), KEY (product, at, customer)"""

PURCHASES_FIELDS = "(at, register, customer, product, price, data)"

SENSOR_COLUMNS = """
    sensor SMALLINT UNSIGNED NOT NULL,
    at DATETIME NOT NULL,
    temperature DECIMAL(6,3) NOT NULL,
    humidity DECIMAL(6,3) NOT NULL,
    voltage DECIMAL(4,2) NOT NULL,
    errors SMALLINT UNSIGNED,
    PRIMARY KEY (sensor, at)"""

FLIGHTS_COLUMNS = """
    id INT UNSIGNED NOT NULL,
    departure DATETIME NOT NULL,
    carrier CHAR(2) NOT NULL,
    flight SMALLINT UNSIGNED NOT NULL,
    plane CHAR(6) NOT NULL,
    origin CHAR(3) NOT NULL,
    destination CHAR(3) NOT NULL,
    departure_delay SMALLINT UNSIGNED,
    arrival_delay SMALLINT UNSIGNED,
    air_time SMALLINT UNSIGNED NOT NULL,
    distance SMALLINT UNSIGNED NOT NULL,
    PRIMARY KEY (id)"""

# Upserts find existing rows by the unique key.
STOCK_COLUMNS = """
    article INT UNSIGNED NOT NULL,
    shop TINYINT UNSIGNED NOT NULL,
    amount INT NOT NULL,
    note CHAR(32) NOT NULL"""

STOCK_KEYS = """,
    UNIQUE KEY (article), KEY (shop, amount)"""


def create(table, columns, keys, engine):
    return f"CREATE TABLE {table} ({columns}{keys}\n) ENGINE={engine} DEFAULT CHARSET=utf8mb4"
