"""Text for columns of every character set: pieces that collations treat specially, and their literals."""

import unicodedata

# Accents, expansions, contractions of tailored collations, ignorable characters, widths, control characters, ends of
# the planes.
PIECES = ["a", "A", "b", "B", "z", "Z", "1", "10", "_", "%", "\\", "'", "-", " ", "  ", "\t", "\0", "\n", "\x7f", "~",
          "á", "Á", "à", "ä", "Ä", "å", "æ", "Æ", "ae", "ß", "ss", "SS", "ẞ", "ö", "oe", "œ", "ü", "ue", "ñ", "ł", "đ", "ð", "þ",
          "ø", "ý", "č", "ç", "š", "ž", "ś", "ő", "ű", "ch", "Ch", "CH", "cz", "ll", "lj", "nj", "dz", "dž", "cs", "ccs", "dzs",
          "gy", "ty", "zs", "rr", "i", "I", "İ", "ı", "Σ", "σ", "ς", "ω", "ж", "Ж", "ё", "е", "ъ", "ґ", "א", "ש", "ا", "ك", "ก", "เ", "แก",
          "日", "本", "中", "文", "か", "が", "カ", "ｶ", "ガ", "ー", "가", "각", "e\u0301", "é", "\u00a0", "\u200d", "\u00ad", "ﬁ", "fi",
          "²", "2", "Ａ", "①", "\u0fb2\u0f71\u0f80", "\ufffd", "\uffff", "\ud7ff", "\ue000", "😀", "🏳", "𐐀", "𝐀", "\U0001f1e6", "\U0010ffff",
          "€", "™", "´", "ÿ", "×"]

# Pieces that have one weight each, separately and in sequence. Only columns with such text get prefix keys. For other
# text (contractions, expansions, ignorable characters), the weights of a prefix may not be a prefix of the weights, and
# reads with and without a prefix key differ, in InnoDB too.
PLAIN = ["b", "B", "f", "1", "2", "_", "%", "-", " ", "~", "é", "É", "ж", "Ж", "ё", "е", "日", "本", "中", "文", "か", "カ", "😀", "𐐀", "€", "×"]

# The pieces of PLAIN that have one weight on each level of a collation.
SINGLE = [piece for piece in PLAIN if not unicodedata.decomposition(piece)]

# Python's codecs determine which pieces a character set contains. Character sets without a codec get only ASCII.
CODECS = {"latin1": "cp1252", "latin2": "iso8859_2", "latin5": "iso8859_9", "latin7": "iso8859_13", "cp1250": "cp1250",
          "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866",
          "koi8r": "koi8_r", "koi8u": "koi8_u", "greek": "iso8859_7", "hebrew": "iso8859_8", "tis620": "tis_620", "gbk": "gbk",
          "gb2312": "gb2312", "big5": "big5", "euckr": "euc_kr", "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc_jp",
          "eucjpms": "euc_jp", "macroman": "mac_roman", "macce": "mac_latin2", "utf8mb4": "utf_8", "utf16": "utf_8",
          "utf16le": "utf_8", "utf32": "utf_8"}
BASIC_PLANE = {"utf8mb3", "ucs2"}
EIGHT_BIT = {"latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866",
             "koi8r", "koi8u", "macroman", "macce", "dec8", "hp8", "keybcs2", "armscii8", "geostd8", "swe7"}
# Maximum bytes of a character, because the limit of keys is in bytes.
WIDTHS = {"utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "ucs2": 2, "gbk": 2, "gb2312": 2, "big5": 2, "euckr": 2,
          "sjis": 2, "cp932": 2, "ujis": 3, "eucjpms": 3}

_pieces = {}


def pads_only_in_keys(collation):
    """Whether a CHAR is compared with its padding in keys but without it elsewhere. The results differ for characters
    with no weight or several weights. Then a lookup by a key may miss rows that a scan finds, in every engine."""
    return "_nopad_" in collation and ("_unicode_" in collation or "_uca1400_" in collation)


def below_blank(collation):
    """Whether a CHAR with characters below the space sorts before the empty string in keys, which are padded, but after
    it elsewhere. Then a range by a key misses rows that a scan finds, in InnoDB, MyISAM, Aria and Teak. The PLAIN
    pieces have no such characters."""
    return "_nopad_" in collation


def sorts_by_levels(collation):
    """Whether the collation has several levels: accents, case, spaces and signs matter only if the texts are otherwise
    equal. Then prefixes do not sort like whole texts, and a range by a key on a prefix misses rows that a scan
    finds, in InnoDB, MyISAM, Aria and Teak."""
    return "_czech_cs" in collation or collation.endswith("_w2") or "_uca1400_" in collation and "_ai_ci" not in collation


def pieces_of(charset, plain):
    """The pieces that can be stored in the character set without loss. `plain`: True for PLAIN, "single" for SINGLE."""
    if (charset, plain) not in _pieces:
        codec = CODECS.get(charset, "ascii")
        found = []
        for piece in SINGLE if plain == "single" else PLAIN if plain else PIECES:
            try:
                if charset in BASIC_PLANE:
                    if all(ord(letter) < 0x10000 for letter in piece):
                        found.append(piece)
                # The server uses different weights to sort and to compare these characters.
                elif charset == "big5" and b"\xc6" <= piece.encode(codec)[:1] <= b"\xc8":
                    continue
                elif piece.encode(codec) and not (codec == "ascii" and ord(piece[0]) > 126):
                    found.append(piece)
            except UnicodeEncodeError:
                pass
        _pieces[charset, plain] = found
    return _pieces[charset, plain]


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0").replace("\n", "\\n") + "'"


def random_text(draw, charset, length, plain):
    """At most `length` characters; sometimes exactly that many, or with spaces at the end."""
    pieces = pieces_of(charset, plain)
    kind = draw.random()
    if kind < 0.08:
        return ""
    if kind < 0.5:
        text = draw.choice(pieces)
    else:
        text = "".join(draw.choices(pieces, k=draw.randint(1, 6)))
    if kind > 0.93:
        text = (text * length)[:length]
    elif kind > 0.85:
        text = text[:length - 1] + " "
    return text[:length]


def text_literal(draw, charset, length, plain=False):
    if not plain and charset in EIGHT_BIT and draw.random() < 0.2:
        size = draw.randint(1, max(1, min(length, 6)))
        return f"_{charset} x'" + bytes(draw.choice([0, 9, 32, 65, 97, 127, 128, 160, 223, 254, 255, draw.randrange(256)])
                                        for _ in range(size)).hex() + "'"
    return quoted(random_text(draw, charset, length, plain))


def bytes_literal(draw, length):
    kind = draw.random()
    if kind < 0.08:
        return "''"
    size = length if kind > 0.93 else draw.randint(1, max(1, min(length, 5)))
    if kind < 0.3:
        return "x'" + ("ff" * size) + "'"
    if kind < 0.45:
        return "x'" + ("00" * size) + "'"
    return "x'" + bytes(draw.choice([0, 1, 32, 32, 97, 0x7F, 0x80, 0xFE, 0xFF]) for _ in range(size)).hex() + "'"
