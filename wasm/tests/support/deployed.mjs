// What a deployment is asked over HTTP, whatever it runs in.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";

export const OPERATOR_TOKEN = "the operator's token of the tests";
/** What the examples read from the environment. Webhooks may be on this machine. */
export const ENVIRONMENT = {
  OPERATOR_TOKEN,
  SEALING_KEY: Buffer.alloc(32, 7).toString("base64"),
  WEBHOOKS: JSON.stringify({ allow: ["127.0.0.0/8"], allowHttp: true }),
};

const CREATED = { status: 201 };

/** Asks a deployment that is reached at what `url` gives: the body of the answer, which has to have this status. */
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

/** Issues a credential, of its kind. */
export async function issue(ask, slug, kind) {
  const credential = { member: "maya", kind, name: kind, expires_in_seconds: 3_600 };
  return (await ask("POST", `/admin/v1/orgs/${slug}/credentials`, OPERATOR_TOKEN, credential, CREATED)).secret;
}

/** What an organisation is made with. */
export function wanted(slug) {
  return { slug, name: slug, owner: { handle: "maya", name: "Maya" } };
}

/** Makes an organisation with a workspace, and issues the two kinds of credentials to its owner. */
export async function organization(ask, slug) {
  const { organization } = await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, wanted(slug), CREATED);
  const product = { slug: "product", name: "Product" };
  const workspace = await ask("POST", `/admin/v1/orgs/${slug}/workspaces`, OPERATOR_TOKEN, product, CREATED);
  const [token, session] = [await issue(ask, slug, "bearer"), await issue(ask, slug, "session")];
  return { id: organization.id, token, session, workspace };
}

/** Takes in so many memories; their identifiers. */
export async function memories(ask, { token, workspace }, count) {
  const source = await ask("POST", "/v1/sources", token, { name: "Wiki", kind: "wiki" }, CREATED);
  const memories = Array.from({ length: count }, (_, number) => ({
    title: `Page ${number}`,
    content: "What it says.",
  }));
  const path = `/v1/workspaces/${workspace.id}/ingest`;
  const answer = await ask("POST", path, token, { source_id: source.id, memories });
  return answer.memories.map(({ id }) => id);
}

/** What signs a message with a secret of a webhook (Standard Webhooks 1.0.0). */
function signature(secret, id, timestamp, body) {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}

/** The headers of a message that is sent now. */
export function signed(secret, id, body) {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signature(secret, id, timestamp, body),
  };
}

/** An endpoint on this machine until the test ends: what it has received, and the first of it, which can be waited for. */
export async function endpoint(t, answer = (_, response) => response.writeHead(204).end()) {
  let take;
  const first = new Promise((resolve) => (take = resolve));
  const received = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const message = { path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() };
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

/** Asserts that a message has the signature of this secret. */
export function assertSigned(secret, { headers, body }) {
  const expected = signature(secret, headers["webhook-id"], headers["webhook-timestamp"], body);
  assert.equal(headers["webhook-signature"], expected);
}

/** Asserts that a deployment delivers by itself what happens in it. */
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
