// The HTTP suite of the server, against the package in Deno and in workerd.

import assert from "node:assert/strict";
import { once } from "node:events";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import { test } from "node:test";

import { DENO, Scratch } from "./support/process.mjs";
import { startWorkerd } from "./support/workerd.mjs";

const ROOT = resolve(import.meta.dirname, "..");

/** What is not asked here, by the names of tests or of their modules, and why. Everything else is, or this fails. */
const NOT_ASKED = {
  "contract::": "tries the suite itself",
  "support::": "tries the suite itself",
  "compression::": "the host's, as are all options of the network",
  "cors::": "the host's",
  "rate_limits::": "the host's",
  "reference::": "the description of the interface and its pages are the server's",
  "failures::": "needs a store that misbehaves, inside the suite; calls.mjs has one of JavaScript",
  "full_disk::": "needs a file system that is full, under the server's store",
  "idempotency::of_many_calls_at_once_one_is_in_the_audit_log": "looks into a store inside the suite",
  "idempotency::a_key_stands_in_one_header": "Fetch joins headers of one name to one",
  "dashboard::a_segment_of_dots_is_an_identifier_as_any_other": "Fetch resolves segments of dots",
  "common::a_get_in_chunks_that_are_too_large": "Fetch shows no body of a GET",
  "common::a_connection_ends_with_a_body_that_is_too_large": "the host has the connection",
};
/** Told expressly: with one alone the tests would run in a thread that is not named after them. */
const THREADS = 4;

const stands = (name) => (prefix) => (prefix.endsWith("::") ? name.startsWith(prefix) : name === prefix);

/** Runs the suite's program; what it prints. */
async function run(scratch, options, env = {}) {
  const program = process.env.KNOWLEDGE_HTTP_SUITE;
  assert.ok(program, "KNOWLEDGE_HTTP_SUITE names the program; cargo xtask ci --only wasm does");
  const suite = scratch.start(program, options, { env: { ...process.env, INSTA_UPDATE: "no", ...env } });
  let output = "";
  suite.stdout.on("data", (data) => (output += data));
  assert.equal(await suite.ended, 0, output);
  return output;
}

async function namesOf(scratch) {
  const output = await run(scratch, ["--list", "--format", "terse"]);
  return output.split("\n").flatMap((line) => /^(.+): test$/.exec(line)?.[1] ?? []);
}

/** Asks the service of a fixture whatever it can be asked. */
async function askAll(t, scratch, fixture) {
  const names = await namesOf(scratch);
  const excuses = Object.keys(NOT_ASKED);
  for (const excuse of excuses) assert.ok(names.some((name) => stands(name)(excuse)), `${excuse} is there`);
  const asking = names.filter((name) => !excuses.some(stands(name))).sort();

  const asked = scratch.file("asked");
  const env = { KNOWLEDGE_TEST_TARGET: fixture, KNOWLEDGE_TEST_ASKED: asked };
  const output = await run(scratch, ["--exact", `--test-threads=${THREADS}`, ...asking], env);
  assert.match(output, new RegExp(`test result: ok\\. ${asking.length} passed; 0 failed; 0 ignored;`));
  assert.deepEqual(readFileSync(asked, "utf8").trim().split("\n").sort(), asking, "each has asked this service");
  t.diagnostic(`${asking.length} of ${names.length} tests asked it`);
}

/** A request as `fetch` would not send it; the status and the text of the answer. */
async function ask(url, path, { method, headers, body }) {
  const { host, port } = new URL(url);
  const sent = request({ host: "127.0.0.1", port, path, method, headers: { host, ...headers } });
  sent.end(body);
  const [answer] = await once(sent, "response");
  const chunks = await answer.toArray();
  return [answer.statusCode, Buffer.concat(chunks).toString()];
}

/** What the README says of the differences. */
async function askWhatDiffers(fixture) {
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

test("in Deno, over SQLite", async (t) => {
  const scratch = new Scratch(t);
  const fixture = scratch.file("fixture.json");
  const script = join(ROOT, "tests/hosts/deno-suite.mjs");
  const deno = scratch.start(DENO, ["run", "--allow-all", "--no-config", script, scratch.file("suite.db"), fixture]);
  await deno.told((line) => line === "seeded" || undefined);
  await askWhatDiffers(fixture);
  await askAll(t, scratch, fixture);
});

/** A directory with the modules that the worker imports, by their names. */
function modules(scratch) {
  const directory = scratch.directory("modules");
  for (const name of ["pkg", "pkg-testing"]) {
    const filter = (path) => !/(^|\/)(node|sqlite)\.js$/.test(path);
    cpSync(join(ROOT, name), join(directory, name), { recursive: true, filter });
  }
  cpSync(join(ROOT, "tests/hosts/dispatch.mjs"), join(directory, "dispatch.js"));
  return directory;
}

test("in workerd, over the storage of a Durable Object", async (t) => {
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
  await askWhatDiffers(fixture);
  await askAll(t, scratch, fixture);
});
