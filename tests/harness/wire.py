"""A client of the server's protocol over a Unix socket. Many statements may be sent before the first answer is read.

Results of text statements are the raw bytes of their rows (`fields` splits them). An answer is a tuple, see `Session.read`.
"""

import socket
import struct
from collections import namedtuple

CAPABILITIES = (1 | 4 | 8 | 0x200 | 0x2000 | 0x8000 | 0x20000 | 0x40000 | 0x80000)  # 4.1 protocol, database, results of CALL
UTF8MB4_GENERAL_CI = 45
MORE_RESULTS = 8
QUERY, PREPARE, EXECUTE, CLOSE = b"\x03", b"\x16", b"\x17", b"\x19"
LAST_PREPARED = 0xFFFFFFFF
PACKET_BYTES_MAX = (1 << 24) - 1  # a longer payload continues in the next packet
CONNECTION_LOST = 2013            # the client library's number

# Parameters other than int, float, str, bytes and None.
Number = namedtuple("Number", "digits")                        # DECIMAL
Moment = namedtuple("Moment", "kind negative numbers micro")   # date, datetime or time; six numbers from the year to the second


class Lost(Exception):
    """The connection was lost, or was refused (then `number` is the server's error)."""

    def __init__(self, text, number=CONNECTION_LOST):
        super().__init__(text)
        self.number = number


def length_encoded(data, at):
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1:at + 1 + width], "little"), at + 1 + width


def sized(data):
    """The data with its encoded length in front."""
    size = len(data)
    return (bytes([size]) if size < 0xFB else b"\xfc" + struct.pack("<H", size) if size < 1 << 16 else b"\xfd" + struct.pack("<I", size)[:3]) + data


def parameter(value):
    """A parameter's type (two bytes) and its value in the binary protocol."""
    if value is None:
        return b"\x06\0", b""
    if isinstance(value, int):
        return (b"\x08\0", struct.pack("<q", value)) if value < 1 << 63 else (b"\x08\x80", struct.pack("<Q", value))
    if isinstance(value, float):
        return b"\x05\0", struct.pack("<d", value)
    if isinstance(value, Number):
        return b"\xf6\0", sized(value.digits.encode())
    if isinstance(value, Moment):
        year, month, day, hour, minute, second = value.numbers
        if value.kind == "time":
            return b"\x0b\0", struct.pack("<BBIBBBI", 12, value.negative, hour // 24, hour % 24, minute, second, value.micro)
        if value.kind == "date":
            return b"\x0a\0", struct.pack("<BHBB", 4, year, month, day)
        return b"\x0c\0", struct.pack("<BHBBBBBI", 11, year, month, day, hour, minute, second, value.micro)
    if isinstance(value, str):
        return b"\xfd\0", sized(value.encode("utf-8", "surrogatepass"))
    return b"\xfc\0", sized(value)


def execution(values):
    """The command that executes the most recently prepared statement."""
    kinds = [parameter(value) for value in values]
    nulls = bytearray((len(values) + 7) // 8)
    for at, value in enumerate(values):
        if value is None:
            nulls[at // 8] |= 1 << at % 8
    return EXECUTE + struct.pack("<IBI", LAST_PREPARED, 0, 1) + (bytes(nulls) + b"\1" + b"".join(kind for kind, _ in kinds) if values else b"") \
        + b"".join(data for _, data in kinds)


def packets(command):
    """A command as one or more packets."""
    parts = [command[at:at + PACKET_BYTES_MAX] for at in range(0, len(command) + 1, PACKET_BYTES_MAX)]
    return b"".join(struct.pack("<I", len(part) | number << 24) + part for number, part in enumerate(parts))


def column_name(definition):
    """The name in a column definition, after its catalogue, database, table and the table's original name."""
    at = 0
    for _ in range(4):
        size, at = length_encoded(definition, at)
        at += size
    size, at = length_encoded(definition, at)
    return definition[at:at + size].decode()


def fields(row):
    """The columns of a raw row, NULL as None."""
    found, at = [], 0
    while at < len(row):
        if row[at] == 0xFB:
            found.append(None)
            at += 1
        else:
            size, at = length_encoded(row, at)
            found.append(row[at:at + size])
            at += size
    return found


class Session:
    """One session as root, without a password."""

    def __init__(self, path, database=b"", timeout=300):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.data, self.at = b"", 0
        try:
            self.socket.connect(str(path))
            greeting = self._packet()
            if greeting[0] == 0xFF:
                raise Lost(greeting[3:].decode(errors="replace"), int.from_bytes(greeting[1:3], "little"))
            answer = struct.pack("<IIB23x", CAPABILITIES, 1 << 24, UTF8MB4_GENERAL_CI)
            self._send(1, answer + b"root\0\0" + database + b"\0mysql_native_password\0")
            reply = self._packet()
            if reply[0] == 0xFE:
                self._send(3, b"")
                reply = self._packet()
        except OSError as error:
            raise Lost(str(error)) from error
        if reply[0] == 0xFF:
            raise Lost(reply[3:].decode(errors="replace"), int.from_bytes(reply[1:3], "little"))

    def close(self):
        try:
            self._send(0, b"\x01")
        except OSError:
            pass  # the connection is lost already
        self.socket.close()

    def _send(self, sequence, payload):
        self.socket.sendall(struct.pack("<I", len(payload) | sequence << 24) + payload)

    def send(self, commands):
        """Sends commands (bytes). They must fit into the socket's buffer, unless answers are read concurrently."""
        try:
            self.socket.sendall(b"".join(packets(command) for command in commands))
        except OSError as error:
            raise Lost(str(error)) from error

    def _more(self):
        try:
            received = self.socket.recv(1 << 18)
        except OSError as error:
            raise Lost(f"no answer: {error}") from error
        if not received:
            raise Lost("the server closed the connection")
        self.data = self.data[self.at:] + received
        self.at = 0

    def _packet(self):
        while len(self.data) - self.at < 4:
            self._more()
        size = int.from_bytes(self.data[self.at:self.at + 3], "little")
        while len(self.data) - self.at < size + 4:
            self._more()
        start = self.at + 4
        self.at = start + size
        payload = self.data[start:self.at]
        return payload + self._packet() if size == PACKET_BYTES_MAX else payload

    def read(self):
        """The next statement's answer: ("ok", affected, insert id, warnings, info), ("error", number, text), or
        ("rows", column definitions, rows, warnings). For a statement with several results, returns the last one that
        is not "ok", or the first if all are."""
        kept = None
        while True:
            answer, more = self._answer()
            if kept is None or answer[0] != "ok":
                kept = answer
            if not more:
                return kept

    def _answer(self):
        first = self._packet()
        if first[0] == 0:
            affected, at = length_encoded(first, 1)
            insert_id, at = length_encoded(first, at)
            status, warnings = struct.unpack_from("<HH", first, at)
            return ("ok", affected, insert_id, warnings, first[at + 4:]), status & MORE_RESULTS
        if first[0] == 0xFF:
            return ("error", int.from_bytes(first[1:3], "little"), first[9:].decode(errors="replace")), 0
        columns = [self._packet() for _ in range(length_encoded(first, 0)[0])]
        self._packet()
        rows = []
        while True:
            row = self._packet()
            if row[:1] == b"\xfe" and len(row) < 9:
                warnings, status = struct.unpack_from("<HH", row, 1)
                return ("rows", columns, rows, warnings), status & MORE_RESULTS
            if row[:1] == b"\xff":
                return ("error", int.from_bytes(row[1:3], "little"), row[9:].decode(errors="replace")), 0
            rows.append(row)

    def read_prepared(self, executions):
        """The answers to a prepared statement and its executions, as ("many", answers)."""
        first = self._packet()
        if first[0] == 0xFF:
            answers = [("error", int.from_bytes(first[1:3], "little"), first[9:].decode(errors="replace"))]
        else:
            columns, parameters = struct.unpack_from("<HH", first, 5)
            for count in (parameters, columns):
                for _ in range(count + 1 if count else 0):
                    self._packet()
            answers = []
        return "many", answers + [self.read() for _ in range(executions)]

    def run(self, statement):
        self.send([QUERY + (statement if isinstance(statement, bytes) else statement.encode(errors="surrogateescape"))])
        return self.read()
