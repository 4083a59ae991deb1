// A receiver and a sender of signed messages, by the library `standardwebhooks` from npm. Speaks JSON, a line at a time.
//
// Prints {"port"} first. A line {"path", "secret"} says what deliveries to a path are verified with; each is printed as
// {"path", "id", "verified": true, "payload"} or {"path", "id", "verified": false, "error"}. A line {"url", "secret", "id", "body"} has it sign
// and post the body there; it prints {"posted": STATUS}.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Webhook } = createRequire(`${process.env.TEST_NODE_PACKAGES}/`)("standardwebhooks");

const say = (line) => console.log(JSON.stringify(line));
const webhooks = new Map();

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const seen = { path: request.url, id: request.headers["webhook-id"] };
    try {
      const payload = webhooks.get(request.url).verify(Buffer.concat(parts), request.headers);
      response.writeHead(204).end();
      say({ ...seen, verified: true, payload });
    } catch (error) {
      response.writeHead(401).end();
      say({ ...seen, verified: false, error: String(error) });
    }
  });
});
server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const order = JSON.parse(line);
    if (!order.url) {
      webhooks.set(order.path, new Webhook(order.secret));
      return;
    }
    const now = new Date();
    const response = await fetch(order.url, {
      method: "POST",
      body: order.body,
      headers: {
        "content-type": "application/json",
        "webhook-id": order.id,
        "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
        "webhook-signature": new Webhook(order.secret).sign(order.id, now, order.body),
      },
    });
    say({ posted: response.status });
  })
  // Whoever started it is gone.
  .on("close", () => process.exit(0));
