#!/usr/bin/env python3
"""Writes schema.sql, rows.sql and queries.sql for plugin/tests/run.sh: random tables over every column type and many
collations, random rows, and queries whose results must not depend on the engine."""

import argparse
import os
import random

COLLATIONS = """
latin1_swedish_ci latin1_bin latin1_general_ci latin1_general_cs latin1_german1_ci latin1_german2_ci latin1_nopad_bin
latin1_swedish_nopad_ci latin1_danish_ci latin1_spanish_ci ascii_general_ci ascii_bin cp1250_general_ci cp1250_czech_cs
latin2_czech_cs latin2_general_ci koi8r_general_ci cp1251_general_ci greek_general_ci hebrew_general_ci
utf8mb4_general_ci utf8mb4_bin utf8mb4_unicode_ci utf8mb4_unicode_520_ci utf8mb4_unicode_520_nopad_ci
utf8mb4_general_nopad_ci utf8mb4_nopad_bin utf8mb4_croatian_ci utf8mb4_german2_ci utf8mb4_czech_ci utf8mb4_danish_ci
utf8mb4_spanish2_ci utf8mb4_hungarian_ci utf8mb4_vietnamese_ci utf8mb4_thai_520_w2 utf8mb4_uca1400_ai_ci
utf8mb4_uca1400_as_cs utf8mb4_uca1400_as_ci utf8mb4_uca1400_ai_cs utf8mb4_uca1400_nopad_ai_ci utf8mb4_uca1400_nopad_as_cs
utf8mb4_uca1400_nopad_ai_cs utf8mb4_uca1400_czech_as_cs utf8mb4_uca1400_swedish_nopad_as_ci utf8mb3_general_ci utf8mb3_bin
utf8mb3_unicode_ci utf8mb3_general_mysql500_ci ucs2_general_ci ucs2_bin ucs2_unicode_ci utf16_general_ci utf16_bin
utf16_unicode_nopad_ci utf16le_general_ci utf16le_bin utf32_general_ci utf32_bin utf32_nopad_bin utf32_unicode_ci
sjis_japanese_ci sjis_bin cp932_japanese_ci cp932_nopad_bin ujis_japanese_ci ujis_bin eucjpms_japanese_ci gbk_chinese_ci
gbk_bin gbk_chinese_nopad_ci big5_chinese_ci big5_bin gb2312_chinese_ci euckr_korean_ci euckr_nopad_bin tis620_thai_ci
tis620_thai_nopad_ci tis620_bin
""".split()

LETTERS = "aAbBcChHsSzZlLjJeEiInN019"
# In a CHAR, characters without weight make the server's comparison functions disagree with each other and with InnoDB.
WEIGHTLESS = "\x01\x1f\xad\u0301\u0e48"
SPECIAL = "\x01\x09\x1f!~\xa0\xad\xc4\xc6\xdf\xe1\xe4\xf1\u0142\u0301\u03b1\u03c2\u03c3\u0430\u0451\u0e01\u0e40\u0e48\u3042" \
          "\u30a2\u4e00\u4e01\u9fa5\uac00\ufdfa\uff71\U0001f600\U00020000"


class Generator:
    def __init__(self, seed, rows, directory):
        self.random = random.Random(seed)
        self.rows = rows
        self.schema = open(os.path.join(directory, "schema.sql"), "w", encoding="utf-8")
        self.inserts = open(os.path.join(directory, "rows.sql"), "w", encoding="utf-8")
        self.queries = open(os.path.join(directory, "queries.sql"), "w", encoding="utf-8")
        self.inserts.write("SET sql_mode='';\n")
        self.queries.write("SET max_sort_length=20000, sort_buffer_size=16777216;\n")
        self.tables = 0

    # ---- values -----------------------------------------------------------------------------------------------------

    def text(self, length_max, special=SPECIAL):
        characters = []
        for _ in range(self.random.randint(0, length_max)):
            choice = self.random.random()
            if choice < 0.2:
                characters.append(" ")
            elif choice < 0.75:
                characters.append(self.random.choice(LETTERS))
            else:
                characters.append(self.random.choice(special))
        if self.random.random() < 0.3:
            characters.append(" " * self.random.randint(1, 3))
        text = "".join(characters)
        if self.random.random() < 0.5:
            text = text[:3]
        return "_utf8mb4 x'%s'" % text.encode("utf-8").hex() if text else "''"

    def binary(self, length_max):
        length = self.random.randint(0, length_max)
        if self.random.random() < 0.5:
            length = min(length, 3)
        return "x'%s'" % bytes(self.random.choice((0, 0, 1, 32, 65, 127, 128, 254, 255)) for _ in range(length)).hex()

    def integer(self, bits, signed):
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        choice = self.random.random()
        if choice < 0.4:
            return str(max(low, self.random.randint(-3, 3)))
        if choice < 0.6:
            return str(self.random.choice((low, low + 1, high, high - 1)))
        return str(self.random.randint(low, high))

    def fraction(self, decimals):
        return ".%06d" % self.random.choice((0, 1, 999999, 500000, self.random.randint(0, 999999))) if decimals else ""

    def time_of(self, kind, decimals):
        r = self.random
        if kind == "TIME":
            return "'%s%02d:%02d:%02d%s'" % (r.choice(("", "-")), r.choice((0, 1, 23, 838)), r.randint(0, 59),
                                             r.randint(0, 59), self.fraction(decimals))
        day = "%04d-%02d-%02d" % (r.choice((1971, 1999, 2024, 2037)), r.randint(1, 12), r.randint(1, 28))
        if kind == "DATE":
            return "'%s'" % r.choice((day, day, "0000-00-00", "9999-12-31", "1000-01-01"))
        if kind == "DATETIME" and r.random() < 0.2:
            return r.choice(("'0000-00-00'", "'9999-12-31 23:59:59'", "'1000-01-01 00:00:00'"))
        return "'%s %02d:%02d:%02d%s'" % (day, r.randint(0, 23), r.randint(0, 59), r.randint(0, 59), self.fraction(decimals))

    # ---- columns: (definition, function giving a literal, key part or None) --------------------------------------------

    def string_column(self, collation):
        r = self.random
        charset = "CHARACTER SET " + collation.split("_")[0] + " COLLATE " + collation
        kind = r.choice(("CHAR", "VARCHAR", "VARCHAR", "TEXT", "CHAR PREFIX", "VARCHAR PREFIX"))
        length = r.choice((1, 3, 10, 20))
        special = SPECIAL
        if kind.startswith("CHAR"):
            special = "".join(c for c in SPECIAL if c not in WEIGHTLESS)
        literal = lambda length_max: "CONVERT(%s USING %s) COLLATE %s" % (self.text(length_max, special), collation.split("_")[0],
                                                                         collation)
        value = lambda: literal(min(length + 1, 12))
        if kind == "TEXT":
            return (r.choice(("TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT")) + " " + charset, lambda: literal(15),
                    "%%s(%d)" % r.choice((1, 3, 30)))
        base = "%s(%d) %s" % (kind.split()[0], length, charset)
        if kind.endswith("PREFIX") and length > 1:
            return base, value, "%%s(%d)" % r.randint(1, length - 1)
        return base, value, "%s"

    def other_column(self):
        r = self.random
        decimals = r.choice((0, 0, 1, 2, 3, 4, 5, 6))
        kind = r.choice(("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "YEAR", "DATE", "TIME",
                         "DATETIME", "TIMESTAMP", "ENUM", "SET", "BIT", "BINARY", "VARBINARY", "BLOB", "GEOMETRY", "UUID",
                         "INET6", "INET4", "JSON", "BOOL", "CHAR0", "SET64"))
        if kind in ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"):
            bits = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}[kind]
            signed = r.random() < 0.5
            return kind + ("" if signed else " UNSIGNED"), lambda: self.integer(bits, signed), "%s"
        if kind in ("FLOAT", "DOUBLE"):
            return kind, lambda: r.choice(("0", "-0e0", "0e0", "1e-30", "-1e-30", "1.5", "-1.5", "3e37", "-3e37",
                                           repr(r.uniform(-100, 100)))), "%s"
        if kind == "DECIMAL":
            digits = r.randint(1, 40)
            scale = r.randint(0, min(digits, 20))
            return "DECIMAL(%d,%d)%s" % (digits, scale, r.choice(("", " UNSIGNED"))), \
                lambda: "%s%d.%d" % (r.choice(("", "-")), r.randint(0, 10 ** r.randint(0, 20)), r.randint(0, 10 ** 6)), "%s"
        if kind == "YEAR":
            return kind, lambda: str(r.choice((0, 1901, 2155, r.randint(1950, 2030)))), "%s"
        if kind == "DATE":
            return kind, lambda: self.time_of(kind, 0), "%s"
        if kind in ("TIME", "DATETIME", "TIMESTAMP"):
            definition = "%s(%d)" % (kind, decimals) + (" NULL DEFAULT NULL" if kind == "TIMESTAMP" else "")
            return definition, lambda: self.time_of(kind, decimals), "%s"
        if kind == "ENUM":
            names = ["v%d" % i for i in range(r.choice((3, 300)))]
            return "ENUM(%s)" % ",".join("'%s'" % name for name in names), lambda: "'%s'" % r.choice(names + [""]), "%s"
        if kind in ("SET", "SET64"):
            count = 64 if kind == "SET64" else r.choice((3, 9, 20, 30))
            return "SET(%s)" % ",".join("'s%d'" % i for i in range(count)), \
                lambda: str(r.getrandbits(count)), "%s"
        if kind == "BIT":
            bits = r.choice((1, 3, 7, 8, 9, 17, 32, 63, 64))
            return "BIT(%d)" % bits, lambda: str(r.choice((0, 1, (1 << bits) - 1, r.getrandbits(bits)))), "%s"
        if kind == "BINARY":
            length = r.choice((1, 4, 8, 9, 16, 40))
            return "BINARY(%d)" % length, lambda: self.binary(length), r.choice(("%s", "%%s(%d)" % max(1, length // 2)))
        if kind == "VARBINARY":
            length = r.choice((1, 4, 9, 40, 300))
            return "VARBINARY(%d)" % length, lambda: self.binary(min(length, 20)), \
                r.choice(("%s", "%%s(%d)" % max(1, length // 2)))
        if kind == "BLOB":
            return r.choice(("BLOB", "TINYBLOB", "LONGBLOB")), lambda: self.binary(30), "%%s(%d)" % r.choice((1, 4, 100))
        if kind == "GEOMETRY":
            return "POINT", lambda: "POINT(%d,%d)" % (r.randint(-3, 3), r.randint(-3, 3)), "%s(25)"
        if kind == "UUID":
            return kind, lambda: "'%08x-%04x-%04x-%04x-%012x'" % (r.getrandbits(2), r.getrandbits(16),
                                                                  0x1000 + r.getrandbits(12), r.getrandbits(16), r.getrandbits(2)), "%s"
        if kind == "INET6":
            return kind, lambda: "'%x::%x'" % (r.getrandbits(3), r.getrandbits(16)), "%s"
        if kind == "INET4":
            return kind, lambda: "'%d.0.%d.255'" % (r.getrandbits(8), r.getrandbits(1)), "%s"
        if kind == "JSON":
            return kind, lambda: "'{\"a\": %d}'" % r.randint(0, 9), "%s(9)"
        if kind == "CHAR0":
            return "CHAR(0)", lambda: "''", None
        return "BOOL", lambda: str(r.randint(0, 1)), "%s"

    def long_column(self, collation):
        """A column that fills a key of 3072 bytes, with values that differ near their end, and long runs of spaces."""
        r = self.random
        charset = collation.split("_")[0]
        wide = {"latin1": 1, "utf8mb3": 3, "utf8mb4": 4, "ucs2": 2}[charset]
        length = 3072 // wide

        def value():
            head, tail = self.text(4), self.text(3)
            middle = r.choice((125, 126, 127, 128, 129, 300, length - 8))
            text = "CONCAT(RPAD(%s, %d, %s), %s)" % (head, middle, r.choice(("' '", "'ab'", "_utf8mb4 x'c3a4'")), tail)
            return "CONVERT(%s USING %s) COLLATE %s" % (text, charset, collation)
        return "VARCHAR(%d) CHARACTER SET %s COLLATE %s" % (length, charset, collation), value, "%s"

    def long_tables(self):
        r = self.random
        for collation in ("latin1_swedish_ci", "latin1_bin", "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_nopad_bin",
                          "utf8mb4_unicode_ci", "utf8mb4_uca1400_as_cs", "utf8mb3_general_ci", "ucs2_general_ci"):
            self.table([self.long_column(collation), self.other_column()], parts_max=1)
        self.table([("VARBINARY(3072)", lambda: "RPAD(%s, %d, CHAR(0))" % (self.binary(3), r.choice((3, 2000, 3071, 3072))), "%s"),
                    self.other_column()], parts_max=1)

    def special_tables(self):
        """Kinds of columns that the random tables do not have."""
        r = self.random
        number = lambda: str(r.randint(-5, 5))
        self.table([("INT", number, "%s"), ("INT AS (c0 + 1) VIRTUAL", lambda: "DEFAULT", "%s"),
                    ("VARCHAR(20) AS (CONCAT('v', c0)) STORED", lambda: "DEFAULT", "%s"),
                    ("VARCHAR(9) AS (LEFT(c0, 1)) VIRTUAL", lambda: "DEFAULT", "%s(2)"), ("BIT(5)", lambda: str(r.getrandbits(5)), "%s")])
        self.table([("INT", number, "%s"), ("VARCHAR(900) COMPRESSED", lambda: "REPEAT(%s, 40)" % self.text(9), None),
                    ("TEXT COMPRESSED", lambda: "REPEAT(%s, 400)" % self.text(9), None),
                    ("LONGBLOB", lambda: "REPEAT(%s, 900)" % self.binary(9), "%s(10)")])
        for kind in ("VARCHAR(2000) UNIQUE", "TEXT UNIQUE", "LONGBLOB UNIQUE"):
            self.table([(kind, lambda: "REPEAT(%s, 50)" % self.binary(1), None), ("INT", number, "%s"), ("INT", number, "%s")])
        columns = [self.other_column() for _ in range(40)]
        columns = [c for c in columns if c[2]][:16]
        self.table(columns, parts_max=16)

    # ---- tables -----------------------------------------------------------------------------------------------------

    def table(self, columns, bits_as_char=False, old_times=False, parts_max=3):
        """columns: list of (definition, literal, key part); keys are chosen at random among them."""
        r = self.random
        name = "t%03d" % self.tables
        self.tables += 1
        lines, values, parts, nulls = [], [], [], []
        may_lead_primary = set(range(len(columns)))
        for i, (definition, literal, part) in enumerate(columns):
            null = r.random() < 0.5
            generated = " AS (" in definition
            if "NULL DEFAULT" in definition:
                null = True
            lines.append("c%d %s%s" % (i, definition, "" if null or generated else " NOT NULL"))
            values.append(literal)
            parts.append(part)
            nulls.append(null and not generated)
            if generated:
                may_lead_primary.discard(i)
        usable = [i for i in range(len(columns)) if parts[i]]

        def key_of(chosen):
            return ", ".join(parts[i] % ("c%d" % i) + r.choice(("", "", " DESC")) for i in chosen)

        primary = [i for i in usable if not nulls[i] and i in may_lead_primary]
        r.shuffle(primary)
        if primary and r.random() < 0.7:
            lines.append("PRIMARY KEY (%s)" % key_of(primary[:r.randint(1, parts_max)]))
        keys = []
        for i in range(min(6, len(usable))):
            chosen = r.sample(usable, r.randint(1, min(parts_max, len(usable))))
            if i < len(usable) and i < 3:
                chosen = ([usable[i]] + [c for c in chosen if c != usable[i]])[:parts_max + 1 if parts_max > 1 else 1]
            unique = r.random() < 0.25
            lines.append("%sKEY k%d (%s)" % ("UNIQUE " if unique else "", i, key_of(chosen)))
            keys.append((i, chosen))
        self.schema.write("SET GLOBAL teakcodec_bit_fields=%d;\nSET GLOBAL mysql56_temporal_format=%d;\n" %
                          (not bits_as_char, not old_times))
        self.schema.write("CREATE TABLE %s (%s);\n" % (name, ", ".join(lines)))
        for _ in range(self.rows):
            row = ", ".join("NULL" if nulls[i] and r.random() < 0.15 else values[i]() for i in range(len(columns)))
            self.inserts.write("INSERT IGNORE INTO %s VALUES (%s);\n" % (name, row))
        self.query(name, columns, keys, values)

    def query(self, name, columns, keys, values):
        r, q = self.random, self.queries
        q.write("SELECT '%s';\n" % name)
        hexes = ", ".join("HEX(c%d)" % i for i in range(len(columns)))
        q.write("SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', %s))) FROM %s;\n" %
                (", ".join("HEX(IFNULL(c%d, 'null'))" % i for i in range(len(columns))), name))
        for number, chosen in keys:
            column = chosen[0]
            index = "FORCE INDEX (k%d)" % number
            some = "c%d" % r.randrange(len(columns))
            order = "ORDER BY %s" % hexes
            q.write("SELECT COUNT(DISTINCT c%d), MIN(HEX(%s)) FROM %s %s WHERE c%d IS NOT NULL;\n" % (column, some, name, index, column))
            q.write("SELECT HEX(c%d) FROM %s %s WHERE c%d IS NULL ORDER BY 1;\n" % (column, name, index, column))
            for _ in range(4):
                a, b = (self.binary(2) if "DEFAULT" in v else v for v in (values[column](), values[column]()))
                for condition in ("c%d = %s" % (column, a), "c%d >= %s" % (column, a), "c%d < %s" % (column, a),
                                  "c%d > %s" % (column, a), "c%d BETWEEN %s AND %s" % (column, a, b),
                                  "c%d IN (%s, %s)" % (column, a, b)):
                    q.write("SELECT %s FROM %s %s WHERE %s %s;\n" % (hexes, name, index, condition, order))
                    if len(chosen) > 1:
                        q.write("SELECT HEX(c%d), HEX(c%d) FROM %s %s WHERE %s AND c%d <= %s ORDER BY 1, 2;\n" %
                                (column, chosen[1], name, index, condition, chosen[1],
                                 values[chosen[1]]().replace("DEFAULT", "'v1'")))
                    q.write("SELECT HEX(c%d) FROM %s %s WHERE %s ORDER BY 1;\n" % (column, name, index, condition))
                if "CHARACTER SET" in columns[column][0]:
                    q.write("SELECT %s FROM %s %s WHERE c%d LIKE CONCAT(%s, '%%') %s;\n" % (hexes, name, index, column, a, order))
                    q.write("SELECT %s FROM %s %s WHERE c%d LIKE CONCAT(LEFT(%s, 1), '%%') %s;\n" % (hexes, name, index, column, a, order))
                    q.write("SELECT %s FROM %s %s WHERE c%d LIKE CONCAT(LEFT(%s, 2), '_%%') %s;\n" % (hexes, name, index, column, a, order))

    def run(self):
        for collation in COLLATIONS:
            self.table([self.string_column(collation), self.string_column(collation), self.other_column(),
                        self.string_column(self.random.choice(COLLATIONS)), self.other_column()])
        for i in range(60):
            self.table([self.other_column() for _ in range(self.random.randint(2, 9))], bits_as_char=i % 3 == 0,
                       old_times=i % 4 == 1)
        self.long_tables()
        self.special_tables()
        self.schema.write("SET GLOBAL teakcodec_bit_fields=1;\nSET GLOBAL mysql56_temporal_format=1;\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("directory")
    arguments = parser.parse_args()
    Generator(arguments.seed, arguments.rows, arguments.directory).run()


if __name__ == "__main__":
    main()
