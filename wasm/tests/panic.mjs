// Tests of panics inside the module, which reject all running calls and are followed by a new
// instance. They have a file, and thus a process, of their own.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { KnowledgeError, KnowledgeService } from "../pkg-testing/node.js";
import { MemoryStore } from "../pkg-testing/stores/memory.js";
import { panic } from "../pkg-testing/testing.js";
import { Scratch } from "./support/process.mjs";
import { startWorkerd } from "./support/workerd.mjs";

const SEALING_KEY = new Uint8Array(32).fill(7);
const BASE = "https://knowledge.example";

/** A store that can hold back its reads. */
class HeldStore extends MemoryStore {
  #held = undefined;
  /** A promise that settles once a read is held. */
  reached = undefined;
  hold() {
    let reach, release;
    this.reached = new Promise((resolve) => (reach = resolve));
    this.#held = { reach, gate: new Promise((resolve) => (release = resolve)) };
    return () => {
      this.#held = undefined;
      release();
    };
  }
  read(reads) {
    if (!this.#held) return super.read(reads);
    this.#held.reach();
    return this.#held.gate.then(() => super.read(reads));
  }
}

async function acme(store) {
  const service = await KnowledgeService.open(store, { sealingKey: SEALING_KEY });
  await service.provision.createOrganization({ slug: "acme", name: "Acme", owner: { handle: "maya", name: "Maya" } });
  const credential = { member: "maya", kind: "bearer", name: "first", expires_in_seconds: 60 };
  const { secret } = await service.provision.issueCredential("acme", credential);
  const ask = (path) => service.fetch(new Request(BASE + path, { headers: { authorization: `Bearer ${secret}` } }));
  return { service, ask };
}

test("the mistake of a caller does not stop the module", async () => {
  const store = new HeldStore();
  const { service } = await acme(store);
  const release = store.hold();
  const waiting = service.ready();
  await store.reached;

  const { fetch, ready } = service;
  const thrower = {
    valueOf() {
      throw new TypeError("not a number");
    },
  };
  const body = (chunk) => new ReadableStream({ start: (controller) => controller.enqueue(chunk) });
  const headers = new Headers();
  const url = `${BASE}/v1/sources`;
  const mistakes = {
    "a method without its service": () => fetch(new Request(url)),
    "another method without its service": () => ready(),
    "an invalid time": () => service.maintain(thrower),
    "a request without a method": () => service.fetch({ url, headers, body: null }),
    "a request without headers": () => service.fetch({ url, method: "GET", body: null }),
    "a body of numbers": () => service.fetch({ url, method: "POST", headers, body: body(new BigInt64Array(1)) }),
    "a body of text": () => service.fetch({ url, method: "POST", headers, body: body("text") }),
    "a sealing key that is a bigint": () => KnowledgeService.open(new MemoryStore(), { sealingKey: 1n }),
  };
  for (const [name, mistake] of Object.entries(mistakes)) {
    await assert.rejects(mistake, TypeError, name);
  }

  // A stopped instance would have rejected this call.
  release();
  await waiting;
});

test("a panic rejects all calls; the next gets a new instance", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const unhandled = t.mock.fn();
  process.on("unhandledRejection", unhandled);
  t.after(() => process.off("unhandledRejection", unhandled));

  const store = new HeldStore();
  const { service, ask } = await acme(store);
  const other = await acme(new MemoryStore());
  const release = store.hold();
  const waiting = service.ready();
  const asked = ask("/v1/sources");
  const askedForSummary = ask(`/v1/workspaces/${crypto.randomUUID()}/dashboard-summary`);
  const askedByOperator = service.provision.fetch(new Request(`${BASE}/admin/v1/orgs/acme`));
  await store.reached;

  const rejected = assert.rejects(waiting, { code: "internal" });
  await assert.rejects(panic("out of order"), (error) => {
    assert.ok(error instanceof KnowledgeError);
    assert.equal(error.code, "internal");
    assert.match(error.message, /out of order/);
    assert.match(error.message, /testing\.rs/);
    return true;
  });
  await rejected;
  assert.ok(logged.mock.calls.some(({ arguments: [line] }) => line.includes("out of order")));

  // The store's result arrives after its instance has stopped.
  release();
  const response = await asked;
  assert.equal(response.status, 500);
  assert.match(response.headers.get("request-id"), /^[0-9a-f-]{36}$/);
  assert.equal(response.headers.get("content-type"), "application/json");
  const { error, message, details } = await response.json();
  assert.deepEqual([error, details], ["internal", {}]);
  assert.ok(!message.includes("out of order"), "the response hides the reason");
  const summary = await askedForSummary;
  assert.deepEqual([summary.status, summary.headers.get("error-code"), await summary.text()], [500, "internal", ""]);
  const operator = await askedByOperator;
  assert.equal(operator.status, 500);
  assert.match((await operator.json()).message, /the module crashed/, "operators see the reason");

  assert.equal((await ask("/v1/sources")).status, 200);
  assert.equal((await service.provision.organization("acme")).slug, "acme");
  assert.equal((await other.ask("/v1/sources")).status, 200);
  const opened = await KnowledgeService.open(store, { sealingKey: SEALING_KEY });
  assert.equal((await opened.provision.organization("acme")).slug, "acme");
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(unhandled.mock.callCount(), 0);
});

test("every panic is followed by a new instance", async (t) => {
  t.mock.method(console, "error", () => {});
  const { service } = await acme(new MemoryStore());
  for (const message of ["the first", "the second"]) {
    await assert.rejects(panic(message), new RegExp(message));
    await Promise.all([service.ready(), service.maintain(), service.provision.organizations()]);
  }
  await assert.rejects(panic("the third"), { code: "internal" });
  // The memory of a stopped instance need not be freed.
  service.close();
  await assert.rejects(service.ready(), { code: "closed" });
});

test("workerd's objects recover from a panic in their isolate", async (t) => {
  const workerd = await startWorkerd(new Scratch(t), {
    main: join(import.meta.dirname, "hosts/panic-worker.mjs"),
    directory: join(import.meta.dirname, "../pkg-testing"),
    className: "Trial",
  });
  const ask = async (path) => {
    const response = await fetch(workerd.url + path);
    return [response.status, await response.text()];
  };
  const refused = await ask("/?object=bystander");
  assert.equal(refused[0], 401);

  const [waited, panicked] = await Promise.all([ask("/waits?object=waiting"), ask("/panic?object=culprit")]);
  assert.deepEqual(panicked, [200, "internal"]);
  assert.equal(waited[0], 500);
  assert.equal(JSON.parse(waited[1]).error, "internal");
  for (const object of ["waiting", "culprit", "bystander", "newcomer"]) {
    assert.deepEqual(await ask(`/?object=${object}`), refused, object);
  }
});
