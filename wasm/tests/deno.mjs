// The example for Deno: served over HTTP, killed, and started again.

import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";

import { DENO, Scratch } from "./support/process.mjs";

const EXAMPLE = resolve(import.meta.dirname, "../examples/deno/server.js");

/** Starts the example, and gives what it has printed once it listens. */
async function start(scratch) {
  const permissions = ["--allow-net=127.0.0.1", "--allow-read", "--allow-write", "--allow-env"];
  const SEALING_KEY = Buffer.alloc(32, 7).toString("base64");
  const deno = scratch.start(DENO, ["run", ...permissions, EXAMPLE], {
    env: { ...process.env, DATABASE: scratch.file("knowledge.db"), PORT: "0", SEALING_KEY },
  });
  const printed = {};
  await deno.told((line) => Object.assign(printed, JSON.parse(line)).listening);
  return { ...printed, kill: () => deno.kill() };
}

test("what was acknowledged is there after a crash", async (t) => {
  const scratch = new Scratch(t);
  const first = await start(scratch);
  const headers = { authorization: `Bearer ${first.token}`, "content-type": "application/json" };
  const body = JSON.stringify({ name: "Wiki", kind: "wiki" });
  const made = await fetch(`${first.listening}/v1/sources`, { method: "POST", headers, body });
  assert.equal(made.status, 201);
  const source = await made.json();
  await first.kill();

  const second = await start(scratch);
  assert.equal(second.token, undefined, "there is an organisation already");
  const listed = await fetch(`${second.listening}/v1/sources`, { headers });
  assert.deepEqual((await listed.json()).data, [source]);
  const summary = await fetch(`${second.listening}/v1/workspaces/${first.workspace}/dashboard-summary`, { headers });
  assert.equal(summary.status, 200);
  await second.kill();
});
