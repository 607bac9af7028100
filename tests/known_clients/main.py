"""Official webhook libraries as senders, receivers and oracles for tests/e2e/known_clients.rs.

    main.py send URL      signs with the libraries and posts to URL/{source}; prints a JSON line for each delivery:
                          what the library says of it, what the server answered
    main.py receive       a receiver that verifies with the libraries; prints its port, then serves until it is killed
    main.py documents N   N random JSON objects, a line each

Standard input of `send` and `receive`: {"SOURCE": {"secret": …, "other_secret": …, "url": …}}. Everything random comes
from a fixed seed.
"""

import base64
import http.client
import http.server
import io
import json
import logging
import random
import sys
import time
from contextlib import redirect_stdout
from dataclasses import replace
from urllib.parse import urlsplit

from libraries import LIBRARIES, Delivery

SEED = 20261130
GENUINE, EDITED = 12, 60
ALPHABET = "abcXYZ019 _-.:/\\\"'{}[]<>&%+=,;|éßж漢字🙂\u2028\u00a0\t\n"
FRAGMENTS = [",", ";", "=", " ", ".", ":", "v1,", "v1=", "v0=", "t=", "ts=", "h1=", "sha256=", "0", "+", "-", "_", "A"]


def random_json(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, -1, 2**53 + 1, rng.randrange(-(10**20), 10**20)])
    if kind == 2:
        return round(rng.uniform(-1e6, 1e6), rng.randrange(6))
    if kind <= 4:
        return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(40)))
    if kind == 5:
        return [random_json(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {f"k{n}": random_json(rng, depth + 1) for n in range(rng.randrange(6))}


def edited(rng, text):
    """The text with one edit, as a header can carry it."""
    at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    piece = text[at:end]
    changed = rng.choice(
        [
            text[:at] + rng.choice(FRAGMENTS) + text[at:],
            text[:at] + text[end:],
            text[:at] + piece + text[at:],
            text[:at] + piece.swapcase() + text[end:],
            text[:at] + chr(rng.randrange(33, 127)) + text[at + 1 :],
        ]
    )
    return changed.strip()


def edited_delivery(rng, delivery):
    names = [name for name in delivery.headers if name != "content-type"]
    if not names or rng.random() < 0.2:
        at = rng.randrange(len(delivery.body))
        body = bytearray(delivery.body)
        body[at] ^= 1 << rng.randrange(8)
        return replace(delivery, body=bytes(body))
    name = rng.choice(names)
    return delivery.with_header(name, edited(rng, delivery.headers[name]))


def general_cases(library, good, sign, other):
    """What every scheme can meet. `sign` signs the same body at another second."""
    now = int(time.time())
    yield "body changed", replace(good, body=good.body.replace(b"e", b"f", 1))
    yield "newline added", replace(good, body=good.body + b"\n")
    yield "secret of another", other
    name = library.signature
    if name:
        value = good.headers[name]
        yield "signature missing", good.without(name)
        yield "signature empty", good.with_header(name, "")
        yield "signature cut", good.with_header(name, value[:-1])
        yield "signature longer", good.with_header(name, value + "A")
        yield "signature in other case", good.with_header(name, value.swapcase())
        yield "signature twice", good.with_header(name, value + (library.separator or ",") + value)
    if library.timed or library.separator in (",", ";"):
        yield "an hour old", sign(now - 3600)
        yield "an hour ahead", sign(now + 3600)
    if library.timed:
        at = good.headers[library.timed]
        yield "time changed", good.with_header(library.timed, str(int(at) + 1))
        yield "time with sign", good.with_header(library.timed, f"+{at}")
        yield "time with zero", good.with_header(library.timed, f"0{at}")
        yield "time is no number", good.with_header(library.timed, f"{at}x")


class Case:
    """One delivery under its name, with the ids of its events where it is taken."""

    def __init__(self, name, delivery, ids):
        self.name, self.delivery, self.ids = name, delivery, ids


def cases(library, stranger, rng):
    """`stranger` is the same library with another secret."""
    serial = iter(range(10**6))

    def make():
        event_id = f"{library.source}_{next(serial)}"
        body, ids = library.event(event_id, random_json(rng))
        return (lambda at: library.sign(body, event_id, at)), stranger.sign(body, event_id, int(time.time())), ids

    for _ in range(GENUINE):
        sign, _, ids = make()
        yield Case("genuine", sign(int(time.time())), ids)
    own = getattr(library, "cases", lambda *_: ())
    for listed in (lambda g, s, o: general_cases(library, g, s, o), lambda g, s, o: own(s, g, o)):
        sign, other, _ = make()
        count = len(list(listed(sign(int(time.time())), sign, other)))
        for at in range(count):
            # Each has an event of its own, so that the event log shows which were taken.
            sign, other, ids = make()
            name, delivery = list(listed(sign(int(time.time())), sign, other))[at]
            yield Case(name, delivery, ids)
    for _ in range(EDITED):
        sign, _, ids = make()
        yield Case("edited", edited_delivery(rng, sign(int(time.time()))), ids)


def judged(library, delivery):
    try:
        return bool(library.accepts(delivery)), ""
    except Exception as error:  # noqa: BLE001 - libraries refuse with whatever they like
        return False, f"{type(error).__name__}: {error}"[:200]


def post(connection, path, delivery):
    target = f"{path}?{delivery.query}" if delivery.query else path
    connection.putrequest("POST", target, skip_accept_encoding=True)
    for name, value in {"content-type": "application/json", **delivery.headers}.items():
        connection.putheader(name, value)
    connection.putheader("content-length", str(len(delivery.body)))
    connection.endheaders(delivery.body)
    response = connection.getresponse()
    response.read()
    return response.status


def send(url, setup, out):
    to = urlsplit(url)
    connection = http.client.HTTPConnection(to.hostname, to.port, timeout=30)
    for source, given in setup.items():
        library = LIBRARIES[source](source, given["secret"], given.get("url"))
        stranger = LIBRARIES[source](source, given["other_secret"], given.get("url"))
        rng = random.Random(f"{SEED}:{source}")
        for case in cases(library, stranger, rng):
            delivery = case.delivery
            at = int(time.time())
            accepts, says = judged(library, delivery)
            status = post(connection, f"{to.path}/{source}", delivery)
            headers = list({"content-type": "application/json", **delivery.headers}.items())
            line = {"source": source, "case": case.name, "library_accepts": accepts, "library_says": says}
            line |= {"status": status, "at": at, "headers": headers, "query": delivery.query, "event_ids": case.ids}
            out.write(json.dumps(line | {"body": base64.b64encode(delivery.body).decode()}) + "\n")


def receive(setup, out):
    libraries = {s: LIBRARIES[s](s, given["secret"], given.get("url")) for s, given in setup.items()}

    class Receiver(http.server.BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            path, _, query = self.path.partition("?")
            headers = {name.lower(): value for name, value in self.headers.items()}
            accepts, says = judged(libraries[path.strip("/")], Delivery(headers, body, query))
            answer = says.encode()
            self.send_response(200 if accepts else 401)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    out.write(f"{server.server_port}\n")
    out.flush()
    server.serve_forever()


def main():
    out, verb = sys.stdout, sys.argv[1]
    # Some libraries print or log why they refuse.
    logging.disable(logging.CRITICAL)
    with redirect_stdout(io.StringIO()):
        if verb == "send":
            send(sys.argv[2], json.load(sys.stdin), out)
        elif verb == "receive":
            receive(json.load(sys.stdin), out)
        elif verb == "documents":
            rng = random.Random(SEED)
            for _ in range(int(sys.argv[2])):
                out.write(json.dumps({"data": random_json(rng), "note": random_json(rng)}, ensure_ascii=False) + "\n")
        else:
            sys.exit(__doc__)


main()
