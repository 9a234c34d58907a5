-- Aggregates of a whole table, which Teak may compute itself (teak_group_by_pushdown).
SET SESSION teak_bulk_load_threshold = 0;
CREATE TABLE t (
  id INT PRIMARY KEY, tiny TINYINT UNSIGNED, small SMALLINT NOT NULL, plain INT, large BIGINT, larger BIGINT UNSIGNED,
  price DECIMAL(15,2) NOT NULL, share DECIMAL(4,3), whole DECIMAL(18,0), huge DECIMAL(30,4),
  day DATE NOT NULL, moment DATETIME, fine DATETIME(6), stamp TIMESTAMP NULL, clock TIME(2), made YEAR,
  code CHAR(1) CHARACTER SET utf8mb4 NOT NULL, name VARCHAR(20) CHARACTER SET utf8mb4, note VARBINARY(10), text TEXT,
  kind ENUM('red','green','blue'), flags SET('a','b','c'), bits BIT(5), ratio DOUBLE, single FLOAT,
  doubled INT AS (plain * 2) STORED, tripled INT AS (plain * 3) VIRTUAL
);
INSERT INTO t (id, tiny, small, plain, large, larger, price, share, whole, huge, day, moment, fine, stamp, clock, made, code,
                    name, note, text, kind, flags, bits, ratio, single)
  SELECT seq, IF(seq % 7 = 0, NULL, seq % 5), CAST(seq % 300 AS SIGNED) - 150, IF(seq % 11 = 0, NULL, CAST(seq * 37 % 1000 AS SIGNED) - 500),
         IF(seq % 13 = 0, NULL, (CAST(seq * 1000003 % 997 AS SIGNED) - 500) * 9000000000000000), seq * 900000000000000,
         (seq * 7919 % 100000) / 100, IF(seq % 17 = 0, NULL, (seq % 1000) / 1000), CAST(seq * 10000000000000 AS SIGNED) - 5000000000000000,
         seq / 7, DATE '1992-01-01' + INTERVAL seq DAY, IF(seq % 19 = 0, NULL, TIMESTAMP '2000-01-01 00:00:00' + INTERVAL seq HOUR),
         TIMESTAMP '2000-01-01 00:00:00' + INTERVAL seq MICROSECOND, FROM_UNIXTIME(seq * 1000), SEC_TO_TIME(seq * 10 % 1000),
         2000 + seq % 4, SUBSTR('aAbB', seq % 4 + 1, 1), IF(seq % 23 = 0, NULL, CONCAT(SUBSTR('äaÄb', seq % 4 + 1, 1), REPEAT(' ', seq % 3))),
         CHAR(seq % 6), REPEAT('t', seq % 3), ELT(seq % 4, 'red', 'green', 'blue'), seq % 8, seq % 32, seq / 3, seq / 3
  FROM seq_1_to_20000;

DELIMITER //
CREATE PROCEDURE queries()
BEGIN
  SELECT COUNT(*), COUNT(tiny), COUNT(id), COUNT(small), SUM(tiny), SUM(small), SUM(plain), SUM(large), SUM(larger) FROM t WHERE small > -1000;
  SELECT AVG(tiny), AVG(small), AVG(plain), AVG(large), AVG(larger), AVG(price), AVG(share), AVG(whole) FROM t WHERE small > -1000;
  SELECT MIN(tiny), MAX(small), MIN(plain), MAX(large), MIN(larger), MAX(larger), MIN(price), MAX(share), MIN(whole) FROM t;
  SELECT MIN(day), MAX(day), MIN(moment), MAX(moment), MIN(fine), MAX(fine), MAX(doubled) FROM t;
  SELECT SUM(price * (1 - share)), SUM(price * (1 - share) * (1 + share)), AVG(price * 2), SUM(-price), SUM(price - share), SUM(small * 3 + 1), SUM(whole * price) FROM t;
  SELECT SUM(price), COUNT(*) FROM t WHERE day >= '1992-02-01' AND day < DATE '1992-02-01' + INTERVAL 1 MONTH AND share BETWEEN 0.05 - 0.01 AND 0.07 + 0.01 AND small < 24;
  SELECT code, COUNT(*), SUM(price), AVG(share) FROM t GROUP BY code ORDER BY 1;
  SELECT LOWER(MAX(name)) IS NULL, COUNT(*) FROM t WHERE name IS NULL;
  SELECT COUNT(*), SUM(plain) FROM t GROUP BY name ORDER BY 1, 2;
  SELECT tiny, kind, COUNT(*), MAX(price) FROM t GROUP BY tiny, kind HAVING COUNT(*) > 40 ORDER BY COUNT(*) DESC, tiny, kind LIMIT 5;
  SELECT HEX(note), COUNT(*) FROM t GROUP BY note ORDER BY 1;
  SELECT flags, made, COUNT(*) FROM t GROUP BY flags, made ORDER BY flags, made LIMIT 6;
  SELECT clock, COUNT(*) FROM t GROUP BY clock ORDER BY 2 DESC, 1 LIMIT 3;
  SELECT day, SUM(price) FROM t GROUP BY day ORDER BY day LIMIT 3;
  SELECT SUM(price) / COUNT(*), ROUND(AVG(price), 1) + 1 FROM t WHERE tiny IN (1, 3) OR plain NOT IN (1, 2, 3) OR kind IS NULL AND plain IS NOT NULL;
  SELECT COUNT(*) FROM t WHERE plain > 10.5 AND plain <= 400.5 AND plain <> 11 AND plain <> 11.5 AND small NOT BETWEEN -10 AND 10.5;
  SELECT COUNT(*) FROM t WHERE 18000000000000000 * 100 > larger OR larger > 17999999999999999999 OR larger = -1 OR larger < -5;
  SELECT COUNT(*) FROM t WHERE price = 79.19 OR price > 999.985 OR share < 0.0005 OR whole > 4990000000000000.5 OR price < -1000000000000000000000000000000000000000000000.5;
  SELECT COUNT(*) FROM t WHERE moment < '2000-01-05 12:00:00.5' AND fine >= '2000-01-01 00:00:00.000100' AND moment <> '2000-01-02';
  SELECT COUNT(*) FROM t WHERE tiny = 300 OR tiny = -1 OR plain > NULL;
  SELECT COUNT(*) FROM t WHERE day > '1992-03-01 12:00:00' AND 1 = 1 AND day <= TIMESTAMP '1992-05-01 01:00:00';
  SELECT COUNT(*), SUM(plain), MIN(day) FROM t WHERE plain > 1000000;
  SELECT tiny, COUNT(*) FROM t WHERE plain > 1000000 GROUP BY tiny ORDER BY 1;
  SELECT (SELECT SUM(price) FROM t WHERE small = 3) AS one, s.total FROM (SELECT tiny, SUM(plain) AS total FROM t GROUP BY tiny) s ORDER BY s.total LIMIT 2;
  SELECT tiny, COUNT(*) FROM t GROUP BY tiny UNION ALL SELECT made, MAX(plain) FROM t GROUP BY made ORDER BY 1, 2;
  SELECT COUNT(*), SUM(price) FROM t WHERE small > -1000;
  SELECT SUM(ratio) > 1, COUNT(*) FROM t WHERE small > 1;
  SELECT SUM(ratio), AVG(ratio), MIN(ratio), MAX(ratio), SUM(single), AVG(single), MIN(single), MAX(single), COUNT(ratio) FROM t WHERE small > -1000;
  SELECT code, SUM(ratio), AVG(single), MAX(ratio), MIN(single) FROM t GROUP BY code ORDER BY 1;
  SELECT COUNT(*) FROM t WHERE ratio > 100;
  SELECT COUNT(*) FROM t WHERE name = 'a';
  SELECT COUNT(*) FROM t WHERE plain > '12';
  SELECT COUNT(*) FROM t WHERE plain > small;
  SELECT COUNT(*), SUM(plain), MIN(id) FROM t WHERE plain < small OR tiny = plain;
  SELECT COUNT(*), SUM(id) FROM t WHERE tiny <> small AND large >= plain AND NOT id = small;
  SELECT COUNT(*) FROM t WHERE large <= small OR larger > large;
  SELECT COUNT(*) FROM t WHERE price < whole OR moment >= fine OR moment > day;
  SELECT COUNT(*), SUM(plain) FROM t WHERE text LIKE 'T_' OR text < 't' AND text BETWEEN '' AND 's';
  SELECT tiny, COUNT(text), MIN(price) FROM t WHERE text IN ('tt', '', name) AND text <> 'x' GROUP BY tiny ORDER BY 1;
  SELECT COUNT(DISTINCT tiny) FROM t;
  SELECT tiny, COUNT(*) FROM t GROUP BY tiny WITH ROLLUP;
  SELECT SUM(huge) FROM t;
  SELECT SUM(large * small) IS NULL FROM t WHERE large < 100 AND large > -100;
  SELECT MAX(stamp) FROM t;
  SELECT SUM(tripled) FROM t;
  SELECT SUM(id) FROM t;
  SELECT SUM(price) FROM t WHERE id < 100;
  SELECT tiny + 1, COUNT(*) FROM t GROUP BY tiny + 1 ORDER BY 1;
  SELECT BIT_OR(tiny), COUNT(*) FROM t;
  SELECT bits, COUNT(*) FROM t GROUP BY bits ORDER BY 2, 1 LIMIT 1;
  SELECT COUNT(*) FROM t WHERE whole > 1e0 * 0 + 4990000000000000.5;
END//
DELIMITER ;

-- Whole pages of rows.
CALL queries();
-- Rows in memory among them.
UPDATE t SET price = price + 1, name = 'Ab', plain = NULL WHERE id % 1000 = 0;
DELETE FROM t WHERE id BETWEEN 5000 AND 5100 OR id % 100 = 7;
CALL queries();
-- The transaction's own writes, and none of them.
BEGIN;
UPDATE t SET price = price * 2, tiny = 1 WHERE id BETWEEN 200 AND 300;
DELETE FROM t WHERE id > 19000;
CALL queries();
ROLLBACK;
CALL queries();
-- In partitions.
ALTER TABLE t PARTITION BY KEY (id) PARTITIONS 5;
CALL queries();
ALTER TABLE t REMOVE PARTITIONING;
ALTER TABLE t PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (3000), PARTITION p1 VALUES LESS THAN (3001), PARTITION p2 VALUES LESS THAN MAXVALUE);
CALL queries();
SELECT tiny, COUNT(*), SUM(ratio), MIN(small) FROM t PARTITION (p0, p1) GROUP BY tiny ORDER BY 1;
SELECT tiny, COUNT(*), SUM(ratio), MIN(small) FROM t WHERE id >= 3000 GROUP BY tiny ORDER BY 1;
-- No rows.
DELETE FROM t;
CALL queries();
