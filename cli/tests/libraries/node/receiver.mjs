// A receiver and sender of signed messages with the library `standardwebhooks` from npm. Input and
// output are JSON, one value per line.
//
// It first prints {"port"}. The command {"path", "secret"} sets the secret that verifies deliveries
// to a path; each is printed as {"path", "id", "verified": true, "payload"} or
// {"path", "id", "verified": false, "error"}. The command {"url", "secret", "id", "body"} signs and
// posts a body, and prints {"posted": STATUS}.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Webhook } = createRequire(`${process.env.TEST_NODE_PACKAGES}/`)("standardwebhooks");

const print = (line) => console.log(JSON.stringify(line));
const webhooks = new Map();

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const delivery = { path: request.url, id: request.headers["webhook-id"] };
    try {
      const payload = webhooks.get(request.url).verify(Buffer.concat(parts), request.headers);
      response.writeHead(204).end();
      print({ ...delivery, verified: true, payload });
    } catch (error) {
      response.writeHead(401).end();
      print({ ...delivery, verified: false, error: String(error) });
    }
  });
});
server.listen(0, "127.0.0.1", () => print({ port: server.address().port }));

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const command = JSON.parse(line);
    if (!command.url) {
      webhooks.set(command.path, new Webhook(command.secret));
      return;
    }
    const now = new Date();
    const response = await fetch(command.url, {
      method: "POST",
      body: command.body,
      headers: {
        "content-type": "application/json",
        "webhook-id": command.id,
        "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
        "webhook-signature": new Webhook(command.secret).sign(command.id, now, command.body),
      },
    });
    print({ posted: response.status });
  })
  // The input ends with the test.
  .on("close", () => process.exit(0));
