"""The server's protocol over a Unix socket: many statements go out before the first answer is read.

Only what comparing needs: text results as the raw bytes of their rows. A statement's answer is a tuple, see `Session.read`.
"""

import socket
import struct

CAPABILITIES = (1 | 4 | 8 | 0x200 | 0x2000 | 0x8000 | 0x20000 | 0x40000 | 0x80000)  # 4.1 protocol, database, results of CALL
UTF8MB4_GENERAL_CI = 45
MORE_RESULTS = 8


class Lost(Exception):
    """The server is gone."""


def length_encoded(data, at):
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1:at + 1 + width], "little"), at + 1 + width


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
    def __init__(self, path, database=b"", timeout=300):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.data, self.at = b"", 0
        try:
            self.socket.connect(str(path))
            self._packet()
            answer = struct.pack("<IIB23x", CAPABILITIES, 1 << 24, UTF8MB4_GENERAL_CI)
            self._send(1, answer + b"root\0\0" + database + b"\0mysql_native_password\0")
            reply = self._packet()
            if reply[0] == 0xFE:
                self._send(3, b"")
                reply = self._packet()
        except OSError as error:
            raise Lost(str(error)) from error
        if reply[0] == 0xFF:
            raise Lost(reply[3:].decode(errors="replace"))

    def close(self):
        try:
            self._send(0, b"\x01")
        except OSError:
            pass  # gone already
        self.socket.close()

    def _send(self, sequence, payload):
        self.socket.sendall(struct.pack("<I", len(payload) | sequence << 24) + payload)

    def send(self, statements):
        """Sends statements (bytes). Together they must fit into the socket's buffer, or answers must be read meanwhile."""
        try:
            self.socket.sendall(b"".join(struct.pack("<I", len(text) + 1) + b"\x03" + text for text in statements))
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
        return self.data[start:self.at]

    def read(self):
        """The next statement's answer: ("ok", affected, insert id, warnings, info), ("error", number, text), or
        ("rows", column definitions, rows, warnings). Of a statement with several results, the last result that is no "ok"."""
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

    def run(self, statement):
        self.send([statement if isinstance(statement, bytes) else statement.encode()])
        return self.read()
