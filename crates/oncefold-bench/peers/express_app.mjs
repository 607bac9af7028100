// What careful teams write: verify, publish to a quorum queue, answer once the broker has confirmed. No deduplication.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createRequire } from "node:module";

const require = createRequire(process.env.BENCH_NODE_DIR + "/");
const amqp = require("amqplib");
const express = require("express");

const QUEUE = "work";
const connection = await amqp.connect(process.env.BENCH_AMQP_URL);
const channel = await connection.createConfirmChannel();
await channel.assertQueue(QUEUE, { durable: true, arguments: { "x-queue-type": "quorum" } });

const app = express();
app.post("/in/bench", express.raw({ type: "application/json" }), (request, response) => {
  const expected = createHmac("sha256", process.env.BENCH_SECRET).update(request.body).digest();
  const given = Buffer.from(request.get("x-signature") ?? "", "hex");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    response.status(401).json({ error: "signature" });
    return;
  }
  const event = JSON.parse(request.body);
  const options = { persistent: true, messageId: event.id, type: event.type };
  channel.sendToQueue(QUEUE, request.body, options, (error) => {
    response.status(error ? 503 : 200).json({ status: error ? "unavailable" : "accepted" });
  });
});
app.listen(Number(process.env.BENCH_PORT), "127.0.0.1");
