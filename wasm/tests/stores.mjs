// Tests of failing engines, and of stores that return invalid results.

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

test("SqliteStore passes its concurrency and fault tests in Deno", async (t) => {
  const cases = resolve(import.meta.dirname, "hosts/sqlite-faults.mjs");
  const args = ["test", "--allow-all", "--no-config", cases];
  const deno = new Scratch(t).start(DENO, args, { env: { ...process.env, NO_COLOR: "1" } });
  const printed = [];
  for await (const chunk of deno.stdout.setEncoding("utf8")) printed.push(chunk);
  assert.equal(await deno.ended, 0, printed.join(""));
  assert.match(printed.join(""), /^ok \| [1-9]\d* passed \| 0 failed/m);
});

/** Opens a page that can use IndexedDB stores, and a session of the browser's protocol. */
async function openPage(t) {
  const url = await serveFiles(t);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  // Any document without scripts would do; this one is shown as text.
  await page.goto(`${url}/pkg/index.js`);
  await page.evaluate(async () => {
    const { IndexedDbStore } = await import("/pkg/stores/indexeddb.js");
    const key = new Uint8Array([1]);
    const counter = new Uint8Array([2]);
    globalThis.key = key;
    globalThis.reads = [{ type: "keys", keys: [key] }];
    globalThis.open = () => IndexedDbStore.open("knowledge");
    globalThis.mutations = (bytes = 1) => [
      { type: "put", key, value: new Uint8Array(bytes).map(() => Math.random() * 256) },
      { type: "add", key: counter, delta: 1n },
    ];
    /** Resolves to `done`, or to the kind and the message of the failure. */
    globalThis.outcome = (call) =>
      Promise.resolve(call).then(
        () => "done",
        ({ kind, message }) => `${kind}: ${message}`,
      );
    /** Aborts the next transaction in which a request of this method succeeds. */
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

test("IndexedDbStore fails as unknown on an abort after writes", async (t) => {
  const { page } = await openPage(t);
  const outcomes = await page.evaluate(async () => {
    const store = await open();
    abortAt("put");
    const outcomes = [await outcome(store.commit([], mutations()))];
    outcomes.push(await outcome(store.read(reads)));
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
    "done",
  ]);
});

test("IndexedDbStore continues after an abort before writes", async (t) => {
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

test("IndexedDbStore fails as full at the quota, then recovers", async (t) => {
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

test("IndexedDbStore reports a database closed by the browser", async (t) => {
  const { page, origin, session } = await openPage(t);
  await page.evaluate(async () => {
    globalThis.store = await open();
    await store.commit([], mutations());
  });
  await session.send("Storage.clearDataForOrigin", { origin, storageTypes: "indexeddb" });
  const closed = "unavailable: IndexedDB: the browser has closed the database";
  await page.waitForFunction(async (closed) => (await outcome(store.read(reads))) === closed, closed);
  assert.equal(await page.evaluate(() => outcome(store.commit([], mutations()))), closed);
});

const OTHER_KEYS = /too many keys for a range, or keys outside it or out of order/;

/** Returns an entry with a later key, which begins with the given one. */
const behind = ({ key, ...entry }, place) => ({ key: Uint8Array.of(...key, place >> 8, place & 0xff), ...entry });

const NO_BYTES = /that is not a Uint8Array/;
const withKey = (key) => (found) => found.map((entry) => entry && { ...entry, key });
const withVersion = (version) => (found) => found.map((entry) => entry && { ...entry, version });
const withoutKeys = (found) => found.map(({ key, ...entry }) => entry);
const tooMany = ([first], { limit }) => Array.from({ length: limit + 1 }, (_, at) => behind(first, at));

for (const [what, type, lie, expected] of [
  ["more than was requested", "range", tooMany, OTHER_KEYS],
  ["repeated keys", "range", ([first], { limit }) => Array(limit).fill(first), OTHER_KEYS],
  ["keys out of order", "range", (found) => found.toReversed(), OTHER_KEYS],
  ["a key after its range", "range", ([first]) => [first, { ...first, key: Uint8Array.of(0xff) }], OTHER_KEYS],
  ["a key before its range", "range", ([first, ...others]) => [{ ...first, key: Uint8Array.of(0) }, ...others], OTHER_KEYS],
  ["a key that is text", "range", ([first]) => [{ ...first, key: "key" }], NO_BYTES],
  ["a value that is text", "range", ([first]) => [{ ...first, value: "value" }], NO_BYTES],
  ["no entry of a range", "range", () => [null], NO_BYTES],
  ["entries of a range without their keys", "range", withoutKeys, NO_BYTES],
  ["no array for a range", "range", (found) => found.values(), /did not return an array for a read of type range/],
  ["values that are text", "keys", (found) => found.map((entry) => entry && { ...entry, value: "value" }), NO_BYTES],
  ["the entries of a range for keys", "keys", withKey(Uint8Array.of(0)), /entry of another key/],
  ["too few entries for keys", "keys", (found) => found.slice(1), /2 entries for 3 keys; return one entry per key/],
  ["too many entries for keys", "keys", (found) => [...found, null], /4 entries for 3 keys; return one entry per key/],
  ["no array for keys", "keys", () => null, /did not return an array for a read of type keys/],
  ...[0, 0.5, -1, NaN, 2 ** 53, 1n, "1", null, undefined].map((version) => {
    return [`a version that is ${typeof version} ${version}`, "keys", withVersion(version), /not a whole number from 1/];
  }),
]) {
  test(`a store that returns ${what} is corrupt`, async (t) => {
    const store = new MemoryStore();
    const { service, token } = await acme(store);
    for (const name of ["Wiki", "Handbook"]) await service.createSource(token, { body: { name, kind: "wiki" } });
    const answer = store.read.bind(store);
    // The range of the caller's roles in workspaces is empty.
    const isMeant = (read, found) => read.type === type && found.length > 0;
    store.read = (reads) =>
      answer(reads).map((found, at) => (isMeant(reads[at], found) ? lie(found, reads[at]) : found));
    const logged = t.mock.method(console, "error", () => {});
    await assert.rejects(service.listSources(token), { name: "KnowledgeError", code: "internal" });
    assert.match(logged.mock.calls[0].arguments[0], expected);
  });
}

const OTHER_NUMBER = /returned (\d) results for (?!\1)\d reads; return an array with one result per read/;

for (const [what, lie, expected] of [
  ["too few results", (found) => found.slice(1), OTHER_NUMBER],
  ["too many results", (found) => [...found, []], OTHER_NUMBER],
  ["results of the other kind", (found) => found.toReversed(), /0 entries for \d+ keys/],
  ["no array of results", (found) => ({ ...found, length: found.length }), /did not return an array; return an array with/],
]) {
  test(`a store that returns ${what} for several reads is corrupt`, async (t) => {
    const store = new MemoryStore();
    const { service, token, workspace } = await acme(store);
    const answer = store.read.bind(store);
    let asked = 0;
    store.read = (reads) => {
      const found = answer(reads);
      if (reads.length < 2) return found;
      asked = Math.max(asked, reads.length);
      return lie(found);
    };
    const logged = t.mock.method(console, "error", () => {});
    await assert.rejects(service.dashboardSummary(token, workspace.id), { name: "KnowledgeError", code: "internal" });
    assert.ok(asked > 1);
    assert.match(logged.mock.calls[0].arguments[0], expected);
  });
}

test("the maximum limit requests all entries of a range", async (t) => {
  const store = new MemoryStore();
  const { service, token, workspace } = await acme(store);
  const read = t.mock.method(store, "read");
  await service.dashboardSummary(token, workspace.id);
  const limits = read.mock.calls.flatMap(({ arguments: [reads] }) => reads.flatMap(({ limit }) => limit ?? []));
  assert.equal(Math.max(...limits), 2 ** 32 - 1);
});

test("DurableObjectStore distinguishes damage from a full disk", () => {
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
    const isReported = (error) => error instanceof StoreError && error.kind === kind && error.message === message;
    assert.throws(() => store.read([{ type: "keys", keys: [new Uint8Array([1])] }]), isReported);
    assert.throws(() => new DurableObjectStore(storage), isReported);
  }
});
