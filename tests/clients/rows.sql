-- Rows for schema.sql: NULLs, minimum and maximum values, values that are easily mangled. No value depends on the clock.
SET timestamp = 1700000000.123456, time_zone = '+00:00', NAMES utf8mb4;

INSERT INTO numbers SET int_s = NULL;
INSERT INTO numbers SET tiny_s = -128, tiny_u = 0, small_s = -32768, small_u = 0, medium_s = -8388608, medium_u = 0,
  int_s = -2147483648, int_u = 0, int_zero = 0, big_s = -9223372036854775808, big_u = 0, truth = TRUE,
  exact = -99999999999999999999999999999999999.999999999999999999999999999999, money = -9999999999.99, whole_u = 0,
  single_f = -3.402823e38, double_f = -1.7976931348623157e308, scaled = -9999.999, bit_1 = b'0', bit_17 = b'0', bit_64 = b'0',
  a_year = 0;
INSERT INTO numbers SET tiny_s = 127, tiny_u = 255, small_s = 32767, small_u = 65535, medium_s = 8388607, medium_u = 16777215,
  int_s = 2147483647, int_u = 4294967295, int_zero = 1234567, big_s = 9223372036854775807, big_u = 18446744073709551615,
  exact = 99999999999999999999999999999999999.999999999999999999999999999999, money = 9999999999.99,
  whole_u = 99999999999999999999, single_f = 3.402823e38, double_f = 1.7976931348623157e308, scaled = 9999.999,
  bit_1 = b'1', bit_17 = b'11111111111111111', bit_64 = 0xFFFFFFFFFFFFFFFF, a_year = 2155;
INSERT INTO numbers SET tiny_s = 0, small_s = -1, medium_s = 1, int_s = 0, int_zero = 42, big_s = -1, big_u = 9223372036854775808,
  exact = 0.000000000000000000000000000001, money = 0.01, single_f = 1.17549e-38, double_f = 2.2250738585072014e-308,
  scaled = 0.001, bit_17 = b'10000000000000001', bit_64 = 0x8000000000000000, a_year = 1901;
INSERT INTO numbers SET id = 4294967290, single_f = -0.0, double_f = 0.1, exact = -0.1, a_year = 1999;

INSERT INTO moments (id) VALUES (-9223372036854775808);
INSERT INTO moments VALUES
  (1, '1000-01-01', '-838:59:59', '-838:59:59.99', '-838:59:59.999999', '1000-01-01', '1000-01-01 00:00:00.001',
   '1000-01-01 00:00:00.000001', '1970-01-01 00:00:01', '1970-01-01 00:00:01.001', '1970-01-01 00:00:01.000001', DEFAULT),
  (2, '9999-12-31', '838:59:59', '838:59:59.99', '838:59:59.999999', '9999-12-31 23:59:59', '9999-12-31 23:59:59.999',
   '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07', '2038-01-19 03:14:07.999', '2038-01-19 03:14:07.999999', DEFAULT),
  (3, '2024-02-29', '00:00:00', '-00:00:00.01', '-00:00:00.000001', '1999-12-31 23:59:59', '2000-01-01 00:00:00.500',
   '1969-12-31 23:59:59.999999', '2001-09-09 01:46:40', '2001-09-09 01:46:40.100', '2001-09-09 01:46:40.100100', DEFAULT),
  (9223372036854775807, '0000-00-00', '23:59:59', '23:59:59.50', '23:59:59.500500', '0000-00-00 00:00:00',
   '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', DEFAULT);

INSERT INTO texts (id) VALUES ('defaults');
INSERT INTO texts SET id = 'empty', char_10 = '', char_bin = '', varchar_50 = '', varchar_latin = '', varchar_ucs2 = '',
  binary_8 = '', varbinary_300 = '', blob_tiny = '', blob_plain = '', blob_medium = '', blob_long = '', text_tiny = '',
  text_plain = '', text_medium = '', text_long = '', document = '{}', colour = 'red', flags = '';
INSERT INTO texts SET id = 'full', char_10 = REPEAT('ß', 10), char_bin = '😀😀😀😀😀', varchar_50 = REPEAT('x', 50),
  varchar_latin = REPEAT('é', 300), varchar_ucs2 = REPEAT('я', 20), binary_8 = 0xFFFFFFFFFFFFFFFF,
  varbinary_300 = REPEAT(0xFF, 300), blob_tiny = REPEAT(0xFE, 255), blob_plain = REPEAT(0x00FF, 32767),
  blob_medium = REPEAT('teak', 300000), blob_long = REPEAT(0x0001020304050607, 250000), text_tiny = REPEAT('t', 255),
  text_plain = REPEAT('p', 65535), text_medium = REPEAT('жук', 100000), text_long = REPEAT('0123456789', 200000),
  document = '{"a": [1, 2.5, null, true, "quoted \\" text"], "b": {"ü": "😀"}}', colour = 'déjà vu', flags = 'a,b,c,d e';
INSERT INTO texts SET id = 'mangled', char_10 = 'trail', char_bin = ' lead', varchar_50 = 'trail  ',
  varchar_latin = '\'"\\\n\r\t\Z', varchar_ucs2 = '\'"\\\n', binary_8 = 0x0027220A, varbinary_300 = 0x00275C220A0D1A2000,
  blob_tiny = 0x00, blob_plain = 0x5C275C5C300A1A, blob_medium = 0x0D0A, blob_long = 0x2C2C09, text_tiny = '\\N',
  text_plain = 'NULL', text_medium = 'a,b\tc\nd\\\ne', text_long = '-- /* not a comment */ ;', document = '[]', colour = NULL,
  flags = 'b';
INSERT INTO texts SET id = 'Mangled', text_plain = '日本語 العربية e\u0301', colour = 'blue', flags = 'd e', document = NULL;

INSERT INTO addresses VALUES
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  ('0.0.0.0', '::', '00000000-0000-0000-0000-000000000000', POINT(0, 0), POINT(-1e300, 1e-300),
   LineString(POINT(0, 0), POINT(1, 1)), ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))'), ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')),
  ('255.255.255.255', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'ffffffff-ffff-ffff-ffff-ffffffffffff', POINT(180, -90),
   ST_GeomFromText('MULTIPOINT(1 2,3 4)', 4326), ST_GeomFromText('LINESTRING(0 0,10 10,20 25,50 60)'),
   ST_GeomFromText('POLYGON((0 0,10 0,10 10,0 10,0 0),(5 5,7 5,7 7,5 7,5 5))'),
   ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,2 2))')),
  ('192.168.0.1', '::ffff:192.168.0.1', '123e4567-e89b-12d3-a456-426655440000', POINT(1.5, 2.5),
   ST_GeomFromText('MULTIPOLYGON(((0 0,3 0,3 3,0 3,0 0)))'), NULL, NULL, NULL);
INSERT INTO addresses (four, note) VALUES ('10.0.0.1', NULL), ('10.0.0.1', 'twin'), ('10.0.0.1', 'twin');

INSERT INTO `odd name``s` VALUES (1, 'ä', NULL), (1, 'z', NULL), (-1, '', 7);
INSERT INTO many SELECT seq, seq MOD 97, REPEAT(CHAR(97 + seq MOD 26), seq MOD 100) FROM seq_1_to_20000;
INSERT INTO account (owner, amount) VALUES ('ann', 1000.00), ('bob', 1000.00), ('cleo', 1000.00);
