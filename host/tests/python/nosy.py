"""A step that tries everything a whole language runtime could reach, and answers what it saw."""

import encodings.idna  # noqa: F401  What is not imported while building is not there afterwards.
import json
import os
import random
import socket
import sys
import time

from wit_world import exports


def attempt(action):
    try:
        return {"answer": action()}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}


def connect(address):
    with socket.create_connection(address, timeout=1) as connection:
        connection.sendall(b"hello")
        return "connected"


def listen():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        return "listening"


def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return sender.sendto(b"hello", address)


class Step(exports.Step):
    def describe(self):
        descriptor = {"kind": "testing.nosy@v1", "summary": "Tries what it can reach.", "effect": "observe"}
        return json.dumps(descriptor | {"input_schema": {}, "output_schema": {}, "requests": {}, "probes": False})

    def probe(self, ctx, input):
        raise NotImplementedError

    def run(self, ctx, input):
        asked = json.loads(input)
        address = ("127.0.0.1", asked.get("port", 1))
        if asked.get("allocate"):
            hoard = []
            while True:
                hoard.append(bytearray(1 << 20))
        seen = {
            "time": attempt(time.time),
            "monotonic": attempt(time.monotonic),
            "random": attempt(lambda: random.SystemRandom().getrandbits(64)),
            "hash": attempt(lambda: hash("fettle")),
            "environment": attempt(lambda: dict(os.environ)),
            "arguments": attempt(lambda: sys.argv),
            "list": attempt(lambda: os.listdir("/")),
            "read": attempt(lambda: open("/etc/hostname").read()),
            "write": attempt(lambda: open("/nosy", "w").write("here")),
            "input": attempt(lambda: sys.stdin.read()),
            "resolve": attempt(lambda: socket.getaddrinfo("localhost", 80)),
            "connect": attempt(lambda: connect(address)),
            "listen": attempt(listen),
            "send": attempt(lambda: send(address)),
            "start": attempt(lambda: os.system("true")),
        }
        print("printed")
        return json.dumps(seen, sort_keys=True)

    def undo(self, ctx, input, output):
        raise NotImplementedError
