// Where a store's engine fails, and where a store answers with what it was not asked for.

import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";

import { chromium } from "playwright-core";

import { StoreError } from "../pkg/node.js";
import { DurableObjectStore } from "../pkg/stores/durable-object.js";
import { MemoryStore } from "../pkg/stores/memory.js";
import { acme } from "./support/acme.mjs";
import { serveFiles } from "./support/files.mjs";
import { CHROMIUM, DENO, Scratch } from "./support/process.mjs";

test("the SQLite store beside others, and where SQLite fails, in Deno", async (t) => {
  const cases = resolve(import.meta.dirname, "hosts/sqlite-faults.mjs");
  const args = ["test", "--allow-all", "--no-config", cases];
  const deno = new Scratch(t).start(DENO, args, { env: { ...process.env, NO_COLOR: "1" } });
  const printed = [];
  for await (const chunk of deno.stdout.setEncoding("utf8")) printed.push(chunk);
  assert.equal(await deno.ended, 0, printed.join(""));
  assert.match(printed.join(""), /^ok \| [1-9]\d* passed \| 0 failed/m);
});

/** A page that can have IndexedDB stores, and its session of the browser's protocol. */
async function openPage(t) {
  const url = await serveFiles(t);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  // A document that does nothing by itself: this one is shown as text.
  await page.goto(`${url}/pkg/index.js`);
  await page.evaluate(async () => {
    const { IndexedDbStore } = await import("/pkg/stores/indexeddb.js");
    const key = new Uint8Array([1]);
    const counter = new Uint8Array([2]);
    globalThis.key = key;
    globalThis.open = () => IndexedDbStore.open("knowledge");
    globalThis.mutations = (bytes = 1) => [
      { type: "put", key, value: new Uint8Array(bytes).map(() => Math.random() * 256) },
      { type: "add", key: counter, delta: 1n },
    ];
    /** What a call comes to: `done`, or the kind and the message of its failure. */
    globalThis.outcome = (call) =>
      Promise.resolve(call).then(
        () => "done",
        ({ kind, message }) => `${kind}: ${message}`,
      );
    /** Aborts the next transaction that asks for this with success. */
    globalThis.abortAt = (method) => {
      const original = IDBObjectStore.prototype[method];
      IDBObjectStore.prototype[method] = function (...given) {
        const request = original.apply(this, given);
        if (this.name === "versions") {
          IDBObjectStore.prototype[method] = original;
          request.addEventListener("success", () => this.transaction.abort());
        }
        return request;
      };
    };
  });
  return { page, origin: url, session: await page.context().newCDPSession(page) };
}

test("an IndexedDB store does not know whether a commit was applied that ends after its writes", async (t) => {
  const { page } = await openPage(t);
  const outcomes = await page.evaluate(async () => {
    const store = await open();
    abortAt("put");
    const outcomes = [await outcome(store.commit([], mutations()))];
    outcomes.push(await outcome(store.get([key])));
    outcomes.push(await outcome(store.scan({ start: key }, 1, false)));
    outcomes.push(await outcome(store.commit([], mutations())));
    store.close();
    const again = await open();
    outcomes.push(await outcome(again.commit([{ key, version: null }], mutations())));
    return outcomes;
  });
  const refused = "unavailable: IndexedDB: a commit failed; open the store again";
  assert.deepEqual(outcomes, [
    "unknown: IndexedDB: the transaction was aborted",
    refused,
    refused,
    refused,
    "done",
  ]);
});

test("an IndexedDB store goes on after a commit that ended before its writes", async (t) => {
  const { page } = await openPage(t);
  const outcomes = await page.evaluate(async () => {
    const store = await open();
    abortAt("get");
    const outcomes = [await outcome(store.commit([], mutations()))];
    outcomes.push(await outcome(store.commit([{ key, version: null }], mutations())));
    return outcomes;
  });
  assert.match(outcomes[0], /^unavailable: /);
  assert.equal(outcomes[1], "done");
});

test("an IndexedDB store is full where the browser gives no room, and goes on when there is some", async (t) => {
  const { page, origin, session } = await openPage(t);
  const commit = () => page.evaluate(() => outcome(globalThis.store.commit([], mutations(64 * 1024))));
  await page.evaluate(async () => {
    globalThis.store = await open();
  });
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1 });
  assert.match(await commit(), /^full: /);
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  assert.equal(await commit(), "done");
});

test("an IndexedDB store says so when the browser has closed its database", async (t) => {
  const { page, origin, session } = await openPage(t);
  await page.evaluate(async () => {
    globalThis.store = await open();
    await store.commit([], mutations());
  });
  await session.send("Storage.clearDataForOrigin", { origin, storageTypes: "indexeddb" });
  const closed = "unavailable: IndexedDB: the browser has closed the database";
  await page.waitForFunction(async (closed) => (await outcome(store.get([key]))) === closed, closed);
  assert.equal(await page.evaluate(() => outcome(store.commit([], mutations()))), closed);
});

/** A key that is further on than one, and begins as it does. */
const behind = ({ key, ...entry }, place) => ({ key: Uint8Array.of(...key, place >> 8, place & 0xff), ...entry });

for (const [what, method, lie] of [
  ["more than was asked for", "scan", ([first], _, limit) => Array.from({ length: limit + 1 }, (_, at) => behind(first, at))],
  ["the same keys for ever", "scan", ([first], _, limit) => Array(limit).fill(first)],
  ["keys out of their order", "scan", (found) => found.toReversed()],
  ["a key behind its range", "scan", ([first]) => [first, { ...first, key: Uint8Array.of(0xff) }]],
  ["a key before its range", "scan", ([first, ...others]) => [{ ...first, key: Uint8Array.of(0) }, ...others]],
  ["a key that is text", "scan", ([first]) => [{ ...first, key: "key" }]],
  ["a value that is text", "scan", ([first]) => [{ ...first, value: "value" }]],
  ["values that are text", "get", (found) => found.map((entry) => entry && { ...entry, value: "value" })],
]) {
  test(`a store that answers with ${what} is taken for damaged`, async (t) => {
    const store = new MemoryStore();
    const { service, token } = await acme(store);
    for (const name of ["Wiki", "Handbook"]) await service.createSource(token, { body: { name, kind: "wiki" } });
    const answer = store[method].bind(store);
    store[method] = (...asked) => lie(answer(...asked), ...asked);
    const told = t.mock.method(console, "error", () => {});
    await assert.rejects(service.listSources(token), { name: "KnowledgeError", code: "internal" });
    const expected = /text/.test(what) ? /that is no Uint8Array/ : /other keys than those asked for/;
    assert.match(told.mock.calls[0].arguments[0], expected);
  });
}

test("a Durable Object's store tells damage from a full disk and from the rest", () => {
  for (const [message, kind] of [
    ["database disk image is malformed: SQLITE_CORRUPT", "corrupt"],
    ["file is not a database: SQLITE_NOTADB", "corrupt"],
    ["database or disk is full: SQLITE_FULL", "full"],
    ["disk I/O error: SQLITE_IOERR", "unavailable"],
  ]) {
    let isBroken = false;
    const exec = () => {
      if (isBroken) throw new Error(message);
      return { toArray: () => [] };
    };
    const storage = { sql: { exec }, transactionSync: (work) => work() };
    const store = new DurableObjectStore(storage);
    isBroken = true;
    const isTold = (error) => error instanceof StoreError && error.kind === kind && error.message === message;
    assert.throws(() => store.get([new Uint8Array([1])]), isTold);
    assert.throws(() => new DurableObjectStore(storage), isTold);
  }
});
