// The HTTP suite of the server, against the service in Deno and in workerd.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

import { DENO, Scratch } from "./support/process.mjs";
import { startWorkerd } from "./support/workerd.mjs";

const ROOT = resolve(import.meta.dirname, "..");

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

/** Runs the suite on what a fixture describes. */
async function runSuite(scratch, fixture) {
  const program = process.env.KNOWLEDGE_HTTP_SUITE;
  assert.ok(program, "KNOWLEDGE_HTTP_SUITE names the program; cargo xtask ci --only wasm does");
  const skipped = OF_THE_SERVER.flatMap((name) => ["--skip", name]);
  const suite = scratch.start(program, skipped, {
    env: { ...process.env, INSTA_UPDATE: "no", KNOWLEDGE_TEST_TARGET: fixture },
  });
  let output = "";
  suite.stdout.on("data", (data) => (output += data));
  assert.equal(await suite.ended, 0, output.slice(output.indexOf("failures:")));
  const [, passed] = /(\d+) passed/.exec(output);
  assert.ok(Number(passed) > 100, "the suite is there");
}

test("in Deno, over SQLite", async (t) => {
  const scratch = new Scratch(t);
  const fixture = scratch.file("fixture.json");
  const script = join(ROOT, "tests/hosts/deno-suite.mjs");
  const deno = scratch.start(DENO, ["run", "--allow-all", "--no-config", script, scratch.file("suite.db"), fixture]);
  await deno.told((line) => line === "seeded" || undefined);
  await runSuite(scratch, fixture);
});

test("in workerd, over the storage of a Durable Object", async (t) => {
  const scratch = new Scratch(t);
  const workerd = await startWorkerd(scratch, {
    main: join(ROOT, "tests/hosts/worker-suite.mjs"),
    directory: join(ROOT, "pkg-testing"),
    className: "Trial",
  });
  const seeded = await fetch(`${workerd.url}/seed`);
  assert.equal(seeded.status, 200);
  const fixture = scratch.file("fixture.json");
  writeFileSync(fixture, await seeded.text());
  await runSuite(scratch, fixture);
});
