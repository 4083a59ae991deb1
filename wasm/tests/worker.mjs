// The example for Workers, in workerd: an organisation in a Durable Object, through crashes.

import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";

import { Scratch } from "./support/process.mjs";
import { serve } from "./support/workerd.mjs";

const CONFIG = resolve(import.meta.dirname, "../examples/worker/config.capnp");
const OPERATOR_TOKEN = "operator";
const SEALING_KEY = Buffer.alloc(32, 7).toString("base64");
const KEYS = 100;
const CALLS_PER_KEY = 10;

/** The example over a directory of its own; it can be started again after it was killed. */
async function deployment(t) {
  const scratch = new Scratch(t);
  const storage = scratch.directory("storage");
  const options = ["--socket-addr=http=127.0.0.1:0", `--directory-path=storage=${storage}`];
  let running;
  const started = {
    async start() {
      running = await serve(scratch, CONFIG, { options, env: { SEALING_KEY, OPERATOR_TOKEN } });
    },
    kill: () => running.kill(),
    /** Asks with a credential; the body of the answer, which has to have this status. */
    async ask(method, path, credential, body, { status = 200, headers = {} } = {}) {
      const response = await fetch(running.url + path, {
        method,
        headers: { authorization: `Bearer ${credential}`, "content-type": "application/json", ...headers },
        body: body && JSON.stringify(body),
      });
      const text = await response.text();
      assert.equal(response.status, status, text);
      return text && JSON.parse(text);
    },
  };
  await started.start();
  return started;
}

async function organization({ ask }, slug) {
  const owner = { handle: "maya", name: "Maya" };
  const made = { status: 201 };
  const { token } = await ask("POST", "/operator/organizations", OPERATOR_TOKEN, { slug, name: slug, owner }, made);
  const path = `/operator/organizations/${slug}/workspaces`;
  const workspace = await ask("POST", path, OPERATOR_TOKEN, { slug: "product", name: "Product" }, made);
  return { token, workspace };
}

test("organisations have an object each, found by their tokens", async (t) => {
  const deployed = await deployment(t);
  const acme = await organization(deployed, "acme");
  const globex = await organization(deployed, "globex");
  const path = ({ workspace }) => `/v1/workspaces/${workspace.id}/dashboard-summary`;
  for (const org of [acme, globex]) {
    assert.equal((await deployed.ask("GET", path(org), org.token)).workspace.id, org.workspace.id);
  }
  await deployed.ask("GET", path(globex), acme.token, undefined, { status: 404 });
  const elsewhere = `${acme.token.slice(0, -4)}AAAA`;
  await deployed.ask("GET", path(acme), elsewhere, undefined, { status: 401 });
  await deployed.ask("GET", path(acme), "nothing", undefined, { status: 401 });
  const slug = { slug: "acme", name: "Other", owner: { handle: "noor", name: "Noor" } };
  await deployed.ask("POST", "/operator/organizations", OPERATOR_TOKEN, slug, { status: 409 });
  await deployed.ask("POST", "/operator/organizations", "guessed", slug, { status: 401 });
});

test("1,000 concurrent bulk updates with 100 keys are 100 updates, over a crash too", async (t) => {
  const deployed = await deployment(t);
  const { ask } = deployed;
  const { token, workspace } = await organization(deployed, "acme");
  const made = { status: 201 };
  const source = await ask("POST", "/v1/sources", token, { name: "Wiki", kind: "wiki" }, made);
  const memory = { sourceId: source.id, title: "Page", content: "What it says." };
  const { id } = await ask("POST", `/v1/workspaces/${workspace.id}/memories`, token, memory, made);

  const update = { memoryIds: [id], sensitivityLabel: "restricted" };
  const acknowledged = Array.from({ length: KEYS }, () => new Set());
  let fresh = 0;
  let lost = 0;
  let answers = 0;
  let crash;
  const call = async (key) => {
    for (;;) {
      await crash;
      try {
        const headers = { "idempotency-key": `key-${key}` };
        const result = await ask("PATCH", "/v1/memories/bulk", token, update, { headers });
        acknowledged[key].add(result.operationId);
        if (!result.replayed) fresh += 1;
        break;
      } catch (error) {
        if (error instanceof assert.AssertionError && !/"(conflict|unavailable|internal)"/.test(error.message)) throw error;
        lost += 1;
      }
    }
    answers += 1;
    // In the middle of everything.
    if (answers === KEYS) crash = deployed.kill().then(deployed.start);
  };
  const calls = Array.from({ length: KEYS * CALLS_PER_KEY }, (_, number) => call(number % KEYS));
  await Promise.all(calls);

  assert.ok(acknowledged.every((operations) => operations.size === 1), "each key has one operation");
  assert.ok(lost > 0, "the crash was noticed");
  assert.ok(fresh <= KEYS, `${fresh} were told that theirs was the first`);
  const operations = new Set();
  let cursor = "";
  do {
    const page = await ask("GET", `/v1/audit-log?action=memory.bulk_update&limit=200${cursor}`, token);
    for (const entry of page.data) operations.add(entry.operation_id);
    cursor = page.next_cursor && `&cursor=${page.next_cursor}`;
  } while (cursor);
  assert.equal(operations.size, KEYS);
  for (const [operation] of acknowledged) assert.ok(operations.has(operation), "what was acknowledged is there");
});
