"""What many teams write first: verify, look into Redis whether the event was seen, queue it there, mark it as seen.

Between the look and the mark a copy gets through, and Redis keeps nothing durably before the answer leaves.
"""

import hashlib
import hmac
import json
import os

import redis
from flask import Flask, request

SECRET = os.environ["BENCH_SECRET"].encode()
DAY_S = 86_400

app = Flask(__name__)
store = redis.Redis(host="127.0.0.1", port=int(os.environ["BENCH_REDIS_PORT"]))


@app.post("/in/bench")
def take():
    body = request.get_data()
    expected = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, request.headers.get("x-signature", "")):
        return {"error": "signature"}, 401
    event = json.loads(body)
    seen = "seen:" + event["id"]
    if store.get(seen) is None:
        store.rpush("work", body)
        store.set(seen, 1, ex=DAY_S)
    return {"status": "accepted"}
