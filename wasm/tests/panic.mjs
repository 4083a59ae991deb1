// A panic inside the module: a defect, which is told to everybody who waits. It has a file, and so a process, of its own.

import assert from "node:assert/strict";
import { test } from "node:test";

import { KnowledgeError, KnowledgeService } from "../pkg-testing/node.js";
import { MemoryStore } from "../pkg-testing/stores/memory.js";
import { panic } from "../pkg-testing/testing.js";

test("a panic rejects what waits for the module and what comes after", async (t) => {
  const sealingKey = new Uint8Array(32).fill(7);
  const store = new MemoryStore();
  const service = await KnowledgeService.open(store, { sealingKey });
  const never = t.mock.method(store, "get", () => new Promise(() => {}));
  const waiting = service.ready();
  await assert.rejects(panic("out of order"), (error) => {
    assert.ok(error instanceof KnowledgeError);
    assert.equal(error.code, "internal");
    assert.match(error.message, /out of order/);
    assert.match(error.message, /testing\.rs/);
    return true;
  });
  await assert.rejects(waiting, { code: "internal" });
  never.mock.restore();
  await assert.rejects(service.ready(), { code: "internal" });
  await assert.rejects(service.fetch(new Request("https://knowledge.example/v1/sources")), { code: "internal" });
});
