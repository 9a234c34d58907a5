"""Tests of the protocol client against a scripted server: long packets, errors at connect, column names, a closed connection."""

import socket
import struct
import tempfile
import threading
import unittest
from pathlib import Path

from . import wire
from .connection import Connection, SqlError

OK = b"\x00\x00\x00\x02\x00\x00\x00"
END = b"\xfe\x00\x00\x02\x00"


def packet(payload, sequence=0):
    return struct.pack("<I", len(payload) | sequence << 24) + payload


class ScriptedServer:
    """Answers each packet that it receives with the next of `answers`, then closes the connection."""

    def __init__(self, folder, greeting, answers):
        self.path = str(Path(folder) / "sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.received = []
        self.thread = threading.Thread(target=self.run, args=(greeting, answers), daemon=True)
        self.thread.start()

    def run(self, greeting, answers):
        session, _ = self.listener.accept()
        with session, session.makefile("rb") as incoming:
            session.sendall(packet(greeting))
            for answer in answers:
                size = int.from_bytes(incoming.read(3), "little")
                incoming.read(1)
                self.received.append(incoming.read(size))
                session.sendall(answer)


class Wire(unittest.TestCase):
    def server(self, answers, greeting=b"\x0a"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return ScriptedServer(folder.name, greeting, answers)

    def test_rows_with_null_and_the_names_of_columns(self):
        definition = b"".join(wire.sized(text) for text in (b"def", b"db", b"t", b"t", b"total", b"n")) + b"\x0c" + bytes(12)
        rows = packet(b"\x02") + packet(definition) + packet(definition) + packet(END) + packet(b"\x01a\xfb") + packet(END)
        server = self.server([packet(OK), packet(OK), rows])
        with Connection(server.path) as connection:
            self.assertEqual(connection.run_named("SELECT 1"), ([(b"a", None)], ["total", "total"]))
        self.assertEqual(server.received[2], wire.QUERY + b"SELECT 1")

    def test_payloads_that_continue_in_the_next_packet(self):
        self.assertEqual(wire.packets(b"x"), packet(b"x"))
        for size in (wire.PACKET_BYTES_MAX - 1, wire.PACKET_BYTES_MAX, wire.PACKET_BYTES_MAX + 1):
            command = b"x" * size
            parts, at = [], 0
            sent = wire.packets(command)
            while at < len(sent):
                length = int.from_bytes(sent[at:at + 3], "little")
                self.assertEqual(sent[at + 3], len(parts))
                parts.append(sent[at + 4:at + 4 + length])
                at += 4 + length
            self.assertEqual(b"".join(parts), command)
            self.assertLess(len(parts[-1]), wire.PACKET_BYTES_MAX)
        value = b"v" * wire.PACKET_BYTES_MAX
        row = wire.length_encoded(b"\xfd" + struct.pack("<I", len(value))[:3], 0)
        self.assertEqual(row, (len(value), 4))
        long_row = b"\xfd" + struct.pack("<I", len(value))[:3] + value
        answer = packet(b"\x01") + packet(b"c") + packet(END) + packet(long_row[:wire.PACKET_BYTES_MAX]) \
            + packet(long_row[wire.PACKET_BYTES_MAX:], 1) + packet(END)
        server = self.server([packet(OK), packet(OK), answer])
        with Connection(server.path) as connection:
            self.assertEqual(connection.run("SELECT c"), [(value,)])

    def test_errors_of_statements_and_of_the_connection(self):
        error = b"\xff" + struct.pack("<H", 1062) + b"#23000Duplicate"
        server = self.server([packet(OK), packet(OK), packet(error)])
        connection = Connection(server.path)
        with self.assertRaises(SqlError) as raised:
            connection.run("INSERT")
        self.assertEqual((raised.exception.number, raised.exception.message, raised.exception.lost), (1062, "Duplicate", False))
        with self.assertRaises(SqlError) as raised:
            connection.run("SELECT 1")
        self.assertTrue(raised.exception.lost)
        connection.close()

    def test_a_server_that_refuses_or_does_not_exist(self):
        refusing = self.server([], greeting=b"\xff" + struct.pack("<H", 1040) + b"Too many connections")
        with self.assertRaises(SqlError) as raised:
            Connection(refusing.path)
        self.assertEqual((raised.exception.number, raised.exception.lost), (1040, False))
        with self.assertRaises(SqlError) as raised:
            Connection("/nonexistent")
        self.assertTrue(raised.exception.lost)


if __name__ == "__main__":
    unittest.main()
