// The HTTP suite of the server, against the service in Deno and in workerd.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { startWorkerd } from "./support/workerd.mjs";

const ROOT = resolve(import.meta.dirname, "..");
const DENO = join(ROOT, "node_modules/.bin/deno");

/** What of the server is not in this package, by the names of its tests; the README says why. */
const OF_THE_SERVER = [
  // The description of the interface and its pages are the server's.
  "reference::",
  // Whether a connection is closed is for the host to say, and so is what a GET brings in chunks.
  "common::a_body_that_is_too_large",
  // Fetch joins headers of one name to one, and resolves segments of dots.
  "idempotency::a_key_stands_in_one_header",
  "dashboard::a_segment_of_dots_is_an_identifier_as_any_other",
];

function scratchDirectory(t) {
  const directory = mkdtempSync(join(tmpdir(), "knowledge-suite-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Runs the suite on what a fixture describes. */
async function runSuite(fixture) {
  const program = process.env.KNOWLEDGE_HTTP_SUITE;
  assert.ok(program, "KNOWLEDGE_HTTP_SUITE names the program; cargo xtask ci --only wasm does");
  const skipped = OF_THE_SERVER.flatMap((name) => ["--skip", name]);
  const child = spawn(program, skipped, {
    env: { ...process.env, INSTA_UPDATE: "no", KNOWLEDGE_TEST_TARGET: fixture },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  const code = await new Promise((resolve) => child.once("close", resolve));
  assert.equal(code, 0, output.slice(output.indexOf("failures:")));
  const [, passed] = /(\d+) passed/.exec(output);
  assert.ok(Number(passed) > 100, "the suite is there");
}

test("in Deno, over SQLite", async (t) => {
  const scratch = scratchDirectory(t);
  const fixture = join(scratch, "fixture.json");
  const script = join(ROOT, "tests/hosts/deno-suite.mjs");
  const child = spawn(DENO, ["run", "--allow-all", "--no-config", script, join(scratch, "suite.db"), fixture], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    ended.then((code) => reject(new Error(`Deno ended with ${code}`)));
  });
  await runSuite(fixture);
});

test("in workerd, over the storage of a Durable Object", async (t) => {
  const scratch = scratchDirectory(t);
  const storage = join(scratch, "storage");
  mkdirSync(storage);
  const workerd = await startWorkerd({
    main: join(ROOT, "tests/hosts/worker-suite.mjs"),
    directory: join(ROOT, "pkg-testing"),
    className: "Trial",
    storage,
    scratch,
  });
  t.after(() => workerd.kill());
  const seeded = await fetch(`${workerd.url}/seed`);
  assert.equal(seeded.status, 200);
  const fixture = join(scratch, "fixture.json");
  writeFileSync(fixture, await seeded.text());
  await runSuite(fixture);
});
