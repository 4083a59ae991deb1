// The life of a memory as an assistant sees it: recalled, cited, added to, and relabelled.
//
// Usage: node assistant.mjs QUESTION LEARNED, where LEARNED is a text to propose. KNOWLEDGE_URL,
// KNOWLEDGE_KEY and KNOWLEDGE_TOKEN are in the environment: an MCP key that may propose, and a
// token of the same member with `citation_subscription:manage`. Events arrive at PORT, if it is
// set: a new URL would have to be confirmed by each run. Prints a line of JSON for each step.

import { once } from "node:events";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Webhook } from "standardwebhooks";

const { KNOWLEDGE_URL: url, KNOWLEDGE_KEY: key, KNOWLEDGE_TOKEN: token } = process.env;
const [question, learned] = process.argv.slice(2);
if (!learned || !url || !key || !token) throw new Error("see the usage at the head of this file");
const print = (step, details) => console.log(JSON.stringify({ step, ...details }));

async function use(tool, args) {
  const result = await client.callTool({ name: tool, arguments: args });
  if (result.isError) throw new Error(result.content[0].text);
  return result.structuredContent;
}

async function recall() {
  const { recall_id, results } = await use("recall", { query: question });
  print("recalled", { recall_id, memories: results.map((memory) => memory.excerpt) });
  return recall_id;
}

async function subscriptions(method, path, body) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const request = { method, headers, body: body && JSON.stringify(body) };
  const response = await fetch(`${url}/v1/citation-subscriptions${path}`, request);
  const text = await response.text();
  // Some operations have their errors in headers.
  if (!response.ok) throw new Error(text || response.headers.get("error-message"));
  return text && JSON.parse(text);
}

const client = new Client({ name: "example", version: "1.0.0" });
const authProvider = { token: async () => key };
await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider }));
const recall_id = await recall();
if (!recall_id) throw new Error("no recall is on record, so there is nothing to follow");

// Follow what was cited. The first event, a ping, may overtake the response that has the secret.
const receiver = createServer(async (request, response) => {
  const body = await buffer(request);
  const webhook = new Webhook((await subscription).signing_secret);
  try {
    const { type, data } = webhook.verify(body, request.headers);
    receiver.emit(type, data);
    response.writeHead(204).end();
  } catch {
    response.writeHead(401).end();
  }
});
const changed = once(receiver, "citation.changed");
await once(receiver.listen(process.env.PORT ?? 0, "127.0.0.1"), "listening");
const webhook_url = `http://127.0.0.1:${receiver.address().port}/`;
const subscription = subscriptions("POST", "", { recall_id, webhook_url });
const { id } = await subscription;
print("subscribed", { id });

// Propose what was learned. It waits until somebody has reviewed it.
const proposal = { title: question, content: learned, recall_id };
const proposed = await use("remember", proposal);
print("proposed", { id: proposed.id, review_status: proposed.review_status });

// Once somebody has changed what was cited, look again what may be shown.
console.error("Waiting until somebody changes a memory that was found, such as its review status…");
const [{ change, memory_ids }] = await changed;
print("told", { change, memory_ids });
await recall();
await subscriptions("DELETE", `/${id}`);
receiver.close();
await client.close();
