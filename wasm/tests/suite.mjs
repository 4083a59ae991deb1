// Tests of the package with the HTTP suite, in Deno and in workerd.

import assert from "node:assert/strict";
import { once } from "node:events";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import { test } from "node:test";

import { DENO, Scratch } from "./support/process.mjs";
import { startWorkerd } from "./support/workerd.mjs";

const ROOT = resolve(import.meta.dirname, "..");

/** Skipped cases, by name, with the reason. All others must run. */
const SKIPPED = {
  "resources::audit_log::audit_log_shows_actor_and_change": "the address of a client is a feature of the host",
  "idempotency::idempotency_key_header_must_not_be_repeated": "Fetch joins headers of one name to one",
  "dashboard::dashboard_treats_dot_segment_as_identifier": "Fetch resolves segments of dots",
  "common::get_with_chunks_beyond_limit_is_rejected": "Fetch shows no body of a GET",
  "common::body_beyond_limit_ends_the_connection": "the host has the connection",
};
/** Cases that are skipped in workerd only. */
const SKIPPED_IN_WORKERD = {
  "credentials::write_with_an_empty_origin_is_rejected": "workerd drops empty headers, which no browser sends",
};
const THREADS = 4;

/** Runs the suite against the service of a fixture; returns its output. */
async function run(scratch, fixture, options) {
  const program = process.env.KNOWLEDGE_HTTP_SUITE;
  assert.ok(program, "KNOWLEDGE_HTTP_SUITE must name the program; run cargo xtask ci --only wasm");
  const suite = scratch.start(program, [fixture, ...options], { env: { ...process.env, INSTA_UPDATE: "no" } });
  let output = "";
  suite.stdout.on("data", (data) => (output += data));
  assert.equal(await suite.ended, 0, output);
  return output;
}

async function namesOf(scratch, fixture) {
  const output = await run(scratch, fixture, ["--list", "--format", "terse"]);
  return output.split("\n").flatMap((line) => /^(.+): test$/.exec(line)?.[1] ?? []);
}

/** Runs all cases that apply, against the service of a fixture. */
async function runAll(t, scratch, fixture, reasons = SKIPPED) {
  const names = await namesOf(scratch, fixture);
  const skipped = Object.keys(reasons);
  for (const name of skipped) assert.ok(names.includes(name), `${name} exists`);

  const skip = skipped.flatMap((name) => ["--skip", name]);
  const output = await run(scratch, fixture, ["--exact", `--test-threads=${THREADS}`, ...skip]);
  const applicable = names.length - skipped.length;
  assert.match(output, new RegExp(`test result: ok\\. ${applicable} passed; 0 failed; 0 ignored;`));
  t.diagnostic(`${applicable} of ${names.length} cases ran`);
}

/** Sends a request that `fetch` would change; returns the status and the text of the response. */
async function ask(url, path, { method, headers, body }) {
  const { host, port } = new URL(url);
  const sent = request({ host: "127.0.0.1", port, path, method, headers: { host, ...headers } });
  sent.end(body);
  const [answer] = await once(sent, "response");
  const chunks = await answer.toArray();
  return [answer.statusCode, Buffer.concat(chunks).toString()];
}

/** Tests the differences that the README lists. */
async function assertDifferences(fixture) {
  const { base_url, orgs } = JSON.parse(readFileSync(fixture));
  const [{ members, main }] = orgs;
  const authorization = `Bearer ${members.member.token}`;
  const update = { memoryIds: main.memories.internal.slice(0, 1), sensitivityLabel: "internal" };
  const [status, refusal] = await ask(base_url, "/v1/memories/bulk", {
    method: "PATCH",
    headers: { authorization, "content-type": "application/json", "idempotency-key": ["one", "another"] },
    body: JSON.stringify(update),
  });
  assert.equal(status, 400);
  const [{ path, code }] = JSON.parse(refusal).details.fields;
  assert.deepEqual([path, code], ["Idempotency-Key", "invalid_value"]);

  const dots = `/v1/nothing/%2e%2e/workspaces/${main.id}`;
  const [found, workspace] = await ask(base_url, dots, { method: "GET", headers: { authorization } });
  assert.deepEqual([found, JSON.parse(workspace).id], [200, main.id]);
}

test("the HTTP suite passes in Deno over SQLite", async (t) => {
  const scratch = new Scratch(t);
  const fixture = scratch.file("fixture.json");
  const script = join(ROOT, "tests/hosts/deno-suite.mjs");
  const deno = scratch.start(DENO, ["run", "--allow-all", "--no-config", script, scratch.file("suite.db"), fixture]);
  await deno.line((line) => line === "seeded" || undefined);
  await assertDifferences(fixture);
  await runAll(t, scratch, fixture);
});

/** Creates a directory with the modules that the worker imports. */
function modules(scratch) {
  const directory = scratch.directory("modules");
  for (const name of ["pkg", "pkg-testing"]) {
    const filter = (path) => !/(^|\/)(node|sqlite)\.js$/.test(path);
    cpSync(join(ROOT, name), join(directory, name), { recursive: true, filter });
  }
  cpSync(join(ROOT, "tests/hosts/dispatch.mjs"), join(directory, "dispatch.js"));
  return directory;
}

test("the HTTP suite passes in workerd over a Durable Object", async (t) => {
  const scratch = new Scratch(t);
  const workerd = await startWorkerd(scratch, {
    main: join(ROOT, "tests/hosts/worker-suite.mjs"),
    directory: modules(scratch),
    className: "Trial",
  });
  const seeded = await fetch(`${workerd.url}/seed`);
  assert.equal(seeded.status, 200);
  const fixture = scratch.file("fixture.json");
  writeFileSync(fixture, await seeded.text());
  await assertDifferences(fixture);
  await runAll(t, scratch, fixture, { ...SKIPPED, ...SKIPPED_IN_WORKERD });
});
