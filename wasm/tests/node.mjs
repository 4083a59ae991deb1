// Loads the package as an application does and runs the engine in it.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";

import initialise, { selfTest } from "../pkg/knowledge.js";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

before(async () => {
  // Node.js 18 does not offer it to everyone yet.
  globalThis.crypto ??= webcrypto;
  const module = await readFile(new URL("../pkg/knowledge_bg.wasm", import.meta.url));
  await initialise({ module_or_path: module });
});

test("transactions run over the in-memory store", async () => {
  const earliest = Date.now();
  const { ids, at } = await selfTest(100);

  assert.ok(earliest <= at && at <= Date.now(), "the time is the host's");
  assert.equal(new Set(ids).size, 100, "the randomness is the host's");
  for (const id of ids) assert.match(id, UUID_V7);
  assert.deepEqual(ids, [...ids].sort(), "scans are ordered");
});

test("an empty run finds an empty store", async () => {
  const { ids } = await selfTest(0);
  assert.deepEqual(ids, []);
});
