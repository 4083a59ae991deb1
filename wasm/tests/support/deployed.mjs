// HTTP requests to a deployment, in any host.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";

export const OPERATOR_TOKEN = "the operator's token of the tests";
/** Environment variables of the examples, which permit webhooks on this machine. */
export const ENVIRONMENT = {
  OPERATOR_TOKEN,
  SEALING_KEY: Buffer.alloc(32, 7).toString("base64"),
  WEBHOOKS: JSON.stringify({ allow: ["127.0.0.0/8"], allowHttp: true }),
};

const CREATED = { status: 201 };

/** Creates a client of the deployment at `url()`, which checks the status and returns the body. */
export function asking(url) {
  return async function ask(method, path, credential, body, { status = 200, headers = {} } = {}) {
    const presented = credential?.startsWith("wks_")
      ? { cookie: `theme=dark; service_session=${credential}` }
      : { authorization: `Bearer ${credential}` };
    const response = await fetch(url() + path, {
      method,
      headers: { ...presented, "content-type": "application/json", ...headers },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    assert.equal(response.status, status, `${method} ${path}: ${text}`);
    return response.headers.get("content-type") === "application/json" ? JSON.parse(text) : text;
  };
}

/** Issues a credential of a kind. */
export async function issue(ask, slug, kind) {
  const credential = { member: "maya", kind, name: kind, expires_in_seconds: 3_600 };
  return (await ask("POST", `/admin/v1/orgs/${slug}/credentials`, OPERATOR_TOKEN, credential, CREATED)).secret;
}

/** Returns the body of the request that creates an organisation. */
export function wanted(slug) {
  return { slug, name: slug, owner: { handle: "maya", name: "Maya" } };
}

/** Creates an organisation with a workspace, and issues both kinds of credentials to its owner. */
export async function organization(ask, slug) {
  const { organization } = await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, wanted(slug), CREATED);
  const product = { slug: "product", name: "Product" };
  const workspace = await ask("POST", `/admin/v1/orgs/${slug}/workspaces`, OPERATOR_TOKEN, product, CREATED);
  const [token, session] = [await issue(ask, slug, "bearer"), await issue(ask, slug, "session")];
  return { id: organization.id, token, session, workspace };
}

/** Ingests memories; returns their identifiers. */
export async function memories(ask, { token, workspace }, count) {
  const source = await ask("POST", "/v1/sources", token, { name: "Wiki", kind: "wiki" }, CREATED);
  const memories = Array.from({ length: count }, (_, number) => ({
    title: `Page ${number}`,
    content: "Some content.",
  }));
  const path = `/v1/workspaces/${workspace.id}/ingest`;
  const answer = await ask("POST", path, token, { source_id: source.id, memories });
  return answer.memories.map(({ id }) => id);
}

/** Returns the signature of a message (Standard Webhooks 1.0.0). */
function signature(secret, id, timestamp, body) {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}

/** Returns the headers of a message that is sent now. */
export function signed(secret, id, body) {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signature(secret, id, timestamp, body),
  };
}

/**
 * Starts an endpoint until the test ends; returns its messages and a promise of the first.
 *
 * It confirms itself: it answers pings, which are not among the messages.
 */
export async function endpoint(t, answer = (_, response) => response.writeHead(204).end()) {
  let take;
  const first = new Promise((resolve) => (take = resolve));
  const received = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const message = { path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() };
    if (message.body.includes('"type":"webhook.ping"')) {
      response.writeHead(204).end();
      return;
    }
    received.push(message);
    take(message);
    answer(request, response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, received, first };
}

/** Asserts that a message is signed with a secret. */
export function assertSigned(secret, { headers, body }) {
  const expected = signature(secret, headers["webhook-id"], headers["webhook-timestamp"], body);
  assert.equal(headers["webhook-signature"], expected);
}

/** Asserts that a deployment delivers its events by itself. */
export async function assertDelivers(t, ask) {
  const acme = await organization(ask, "acme");
  const { url, first } = await endpoint(t);
  const hooks = `/v1/workspaces/${acme.workspace.id}/webhooks`;
  const webhook = { event_type: "memory.updated", url };
  const hook = await ask("POST", hooks, acme.token, webhook, CREATED);
  const [id] = await memories(ask, acme, 1);
  await ask("PATCH", `/v1/memories/${id}`, acme.token, { sensitivityLabel: "restricted" });
  const message = await first;
  assertSigned(hook.signing_secret, message);
  assert.equal(JSON.parse(message.body).type, "memory.updated");
}
