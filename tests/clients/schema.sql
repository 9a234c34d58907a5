-- Every column type that Teak supports, in the session's default storage engine. tests/clients/run.py loads this into one
-- database for each engine; rows.sql fills it. `many` is for streaming, `account` for transactions.

CREATE TABLE numbers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  tiny_s TINYINT, tiny_u TINYINT UNSIGNED,
  small_s SMALLINT, small_u SMALLINT UNSIGNED,
  medium_s MEDIUMINT, medium_u MEDIUMINT UNSIGNED,
  int_s INT, int_u INT UNSIGNED, int_zero INT(7) ZEROFILL,
  big_s BIGINT, big_u BIGINT UNSIGNED,
  truth BOOLEAN NOT NULL DEFAULT FALSE,
  exact DECIMAL(65,30), money DECIMAL(12,2) NOT NULL DEFAULT 0.00, whole_u DECIMAL(20,0) UNSIGNED,
  single_f FLOAT, double_f DOUBLE, scaled FLOAT(7,3),
  bit_1 BIT(1), bit_17 BIT(17), bit_64 BIT(64),
  a_year YEAR,
  twice BIGINT GENERATED ALWAYS AS (int_s * 2) VIRTUAL,
  halved DECIMAL(20,4) GENERATED ALWAYS AS (money / 2) STORED,
  PRIMARY KEY (id), KEY (big_u), KEY (exact, double_f), KEY (bit_17), KEY twice_key (twice), UNIQUE KEY halved_key (halved, id)
) COMMENT='numbers of every size';

CREATE TABLE moments (
  id BIGINT NOT NULL PRIMARY KEY,
  a_date DATE,
  time_0 TIME, time_2 TIME(2), time_6 TIME(6),
  datetime_0 DATETIME, datetime_3 DATETIME(3), datetime_6 DATETIME(6) NOT NULL DEFAULT '1000-01-01 00:00:00.000001',
  stamp_0 TIMESTAMP NULL, stamp_3 TIMESTAMP(3) NULL DEFAULT NULL,
  stamp_6 TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  the_year SMALLINT GENERATED ALWAYS AS (year(a_date)) VIRTUAL,
  KEY (a_date, time_6), KEY (datetime_6), KEY (stamp_6)
);

CREATE TABLE texts (
  id VARCHAR(36) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL PRIMARY KEY,
  char_10 CHAR(10), char_bin CHAR(5) COLLATE utf8mb4_bin, varchar_50 VARCHAR(50) NOT NULL DEFAULT 'o''clock',
  varchar_latin VARCHAR(300) CHARACTER SET latin1, varchar_ucs2 VARCHAR(20) CHARACTER SET ucs2,
  binary_8 BINARY(8), varbinary_300 VARBINARY(300),
  blob_tiny TINYBLOB, blob_plain BLOB, blob_medium MEDIUMBLOB, blob_long LONGBLOB,
  text_tiny TINYTEXT, text_plain TEXT, text_medium MEDIUMTEXT, text_long LONGTEXT,
  document JSON,
  colour ENUM('red','green','blue','déjà vu') DEFAULT 'green',
  flags SET('a','b','c','d e') NOT NULL DEFAULT 'a,c',
  shout VARCHAR(60) GENERATED ALWAYS AS (concat(upper(varchar_50), '!')) STORED,
  size INT GENERATED ALWAYS AS (char_length(text_plain)) VIRTUAL,
  KEY (varchar_50), KEY (blob_plain(20)), KEY (text_plain(10), colour), KEY (varbinary_300), KEY (flags), KEY (shout)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;

-- No key: the engine generates a hidden one.
CREATE TABLE addresses (
  four INET4, six INET6, name UUID,
  spot POINT, shape GEOMETRY, way LINESTRING, area POLYGON, bag GEOMETRYCOLLECTION,
  note VARCHAR(20) INVISIBLE DEFAULT 'unseen'
);

CREATE TABLE `odd name``s` (
  `select` INT NOT NULL, `größe m²` VARCHAR(10) NOT NULL COMMENT 'column''s comment', `a b` INT,
  PRIMARY KEY (`select`, `größe m²`), UNIQUE KEY `key ``1` (`a b`)
) DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE many (id INT NOT NULL PRIMARY KEY, grp INT NOT NULL, filler VARCHAR(100) NOT NULL, KEY (grp));

CREATE TABLE account (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, owner VARCHAR(20) NOT NULL, amount DECIMAL(12,2) NOT NULL,
  UNIQUE KEY (owner), CONSTRAINT amount_is_reasonable CHECK (amount > -1000000)
) AUTO_INCREMENT=100;
