// The example for Deno: served over HTTP, killed, and started again.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

const ROOT = resolve(import.meta.dirname, "..");
const DENO = join(ROOT, "node_modules/.bin/deno");
const EXAMPLE = join(ROOT, "examples/deno/server.js");

/** Starts the example, and gives what it has printed once it listens. */
async function start(t, database) {
  const permissions = ["--allow-net=127.0.0.1", "--allow-read", "--allow-write", "--allow-env"];
  const child = spawn(DENO, ["run", ...permissions, EXAMPLE], {
    env: { ...process.env, DATABASE: database, PORT: "0", SEALING_KEY: Buffer.alloc(32, 7).toString("base64") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  t.after(kill);
  const printed = await new Promise((resolve, reject) => {
    const told = {};
    createInterface({ input: child.stdout }).on("line", (line) => {
      Object.assign(told, JSON.parse(line));
      if (told.listening) resolve(told);
    });
    ended.then((code) => reject(new Error(`Deno ended with ${code}`)));
  });
  return { ...printed, kill };
}

test("what was acknowledged is there after a crash", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "knowledge-deno-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const database = join(directory, "knowledge.db");
  const first = await start(t, database);
  const headers = { authorization: `Bearer ${first.token}`, "content-type": "application/json" };
  const body = JSON.stringify({ name: "Wiki", kind: "wiki" });
  const made = await fetch(`${first.listening}/v1/sources`, { method: "POST", headers, body });
  assert.equal(made.status, 201);
  const source = await made.json();
  await first.kill();

  const second = await start(t, database);
  assert.equal(second.token, undefined, "there is an organisation already");
  const listed = await fetch(`${second.listening}/v1/sources`, { headers });
  assert.deepEqual((await listed.json()).data, [source]);
  const summary = await fetch(`${second.listening}/v1/workspaces/${first.workspace}/dashboard-summary`, { headers });
  assert.equal(summary.status, 200);
  await second.kill();
});
