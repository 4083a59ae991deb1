// Tests of each store with the conformance suite of the storage trait, in its host.

import assert from "node:assert/strict";
import { join, resolve } from "node:path";
import { test } from "node:test";

import "../pkg-testing/node.js";
import { chromium } from "playwright-core";

import { volatile } from "../pkg-testing/harnesses.js";
import { MemoryStore } from "../pkg-testing/stores/memory.js";
import { conformance } from "../pkg-testing/testing.js";
import { serveFiles } from "./support/files.mjs";
import { CHROMIUM, DENO, NODE, Scratch } from "./support/process.mjs";
import { startWorkerd } from "./support/workerd.mjs";

const ROOT = resolve(import.meta.dirname, "..");
/** Number of cases about reopening, which a volatile store skips. */
const REOPENING = 9;

function expectPassed(report, excused) {
  assert.deepEqual(report.failed, []);
  assert.equal(report.excused.length, excused);
  assert.equal(report.passed.length + report.excused.length, report.cases);
  assert.ok(report.passed.length > REOPENING);
}

/** A store that rejects empty reads, which the module must answer by itself. */
class StrictStore extends MemoryStore {
  read(reads) {
    assert.ok(reads.length > 0);
    for (const { type, keys, range, limit } of reads) {
      if (type === "keys") {
        assert.ok(keys.length > 0);
      } else {
        assert.ok(Number.isInteger(limit) && limit > 0 && limit < 2 ** 32);
        assert.ok(!range.end || Buffer.compare(range.start, range.end) < 0);
      }
    }
    return super.read(reads);
  }
}

test("MemoryStore conforms in Node.js", async () => {
  const report = await conformance(volatile(() => new StrictStore()));
  expectPassed(report, REOPENING);
  assert.equal(report.hasMarks, false, "a store without a copy has no marks");
});

test("MemoryStore conforms through its copy in the module", async (t) => {
  const commit = t.mock.method(MemoryStore.prototype, "commit");
  const read = t.mock.method(MemoryStore.prototype, "read");
  const report = await conformance(volatile(() => new MemoryStore()));
  expectPassed(report, REOPENING);
  assert.ok(read.mock.callCount() < commit.mock.callCount(), "the copy answers");
  assert.equal(report.hasMarks, true);
});

/** Runs the suite over SQLite in a process, with options before the script. */
async function overSqlite(t, program, options) {
  const script = join(ROOT, "tests/hosts/sqlite.mjs");
  const scratch = new Scratch(t);
  const host = scratch.start(program, [...options, script, scratch.path]);
  expectPassed(await host.line((line) => JSON.parse(line)), 0);
  assert.equal(await host.ended, 0);
}

test("SqliteStore conforms in Deno", (t) => overSqlite(t, DENO, ["run", "--allow-all", "--no-config"]));

test("SqliteStore conforms in Node.js", (t) => overSqlite(t, NODE, ["--disable-warning=ExperimentalWarning"]));

test("DurableObjectStore conforms in workerd", async (t) => {
  const workerd = await startWorkerd(new Scratch(t), {
    main: join(ROOT, "tests/hosts/worker.mjs"),
    directory: join(ROOT, "pkg-testing"),
    className: "Trial",
  });
  const response = await fetch(workerd.url);
  assert.equal(response.status, 200);
  expectPassed(await response.json(), 0);
});

test("IndexedDbStore conforms in Chromium", async (t) => {
  const url = await serveFiles(t);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.goto(`${url}/tests/hosts/`);
  await page.waitForFunction(() => globalThis.conformance !== undefined);
  expectPassed(await page.evaluate(() => globalThis.conformance()), 0);
});
