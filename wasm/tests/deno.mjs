// The example for Deno: served over HTTP, as its task says, through crashes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

import {
  ENVIRONMENT,
  OPERATOR_TOKEN,
  asking,
  endpoint,
  memories,
  organization,
  signature,
  wanted,
} from "./support/deployed.mjs";
import { DENO, Scratch } from "./support/process.mjs";
import { updateAll } from "./support/updates.mjs";

const EXAMPLE = resolve(import.meta.dirname, "../examples/deno");
/** How many keys are acknowledged when Deno is killed. */
const CRASHES_AT = [1, 10, 50];

/** The example with a database of its own; it can be started again after it was killed. */
class Deployment {
  #running;

  constructor(t) {
    this.scratch = new Scratch(t);
    this.ask = asking(() => this.url);
  }

  async start() {
    const { tasks } = JSON.parse(readFileSync(join(EXAMPLE, "deno.json"), "utf8"));
    const [deno, ...options] = tasks.start.command.split(" ");
    assert.equal(deno, "deno");
    this.#running = this.scratch.start(DENO, options, {
      cwd: EXAMPLE,
      env: { ...process.env, ...ENVIRONMENT, DATABASE: this.scratch.file("knowledge.db"), PORT: "0" },
    });
    this.url = await this.#running.told((line) => line);
  }

  kill() {
    return this.#running.kill();
  }
}

async function deployment(t) {
  const deployed = new Deployment(t);
  await deployed.start();
  return deployed;
}

test("what was acknowledged is there after a crash", async (t) => {
  const deployed = await deployment(t);
  const { ask } = deployed;
  const acme = await organization(ask, "acme");
  const source = await ask("POST", "/v1/sources", acme.token, { name: "Wiki", kind: "wiki" }, { status: 201 });
  await deployed.kill();
  await deployed.start();
  assert.deepEqual((await ask("GET", "/v1/sources", acme.token)).data, [source]);
  assert.deepEqual((await ask("GET", "/v1/orgs/acme/custom-roles", acme.session)).data, []);
  const summary = await ask("GET", `/v1/workspaces/${acme.workspace.id}/dashboard-summary`, acme.token);
  assert.equal(summary.workspace.id, acme.workspace.id);
});

test("the operator alone is let to the operator's interface", async (t) => {
  const { ask } = await deployment(t);
  await organization(ask, "acme");
  const { data } = await ask("GET", "/admin/v1/orgs", OPERATOR_TOKEN);
  assert.deepEqual(data.map(({ slug }) => slug), ["acme"]);
  for (const guess of ["guessed", "", `${OPERATOR_TOKEN}!`]) {
    await ask("GET", "/admin/v1/orgs", guess, undefined, { status: 401 });
    await ask("POST", "/admin/v1/orgs", guess, wanted("globex"), { status: 401 });
  }
});

test("what happened is delivered", async (t) => {
  const { ask } = await deployment(t);
  const acme = await organization(ask, "acme");
  const { url, received } = await endpoint(t);
  const hooks = `/v1/workspaces/${acme.workspace.id}/webhooks`;
  const webhook = { event_type: "memory.updated", url };
  const hook = await ask("POST", hooks, acme.token, webhook, { status: 201 });
  const [id] = await memories(ask, acme, 1);
  await ask("PATCH", `/v1/memories/${id}`, acme.token, { sensitivityLabel: "restricted" });
  const { headers, body } = await received;
  const expected = signature(hook.signing_secret, headers["webhook-id"], headers["webhook-timestamp"], body);
  assert.equal(headers["webhook-signature"], expected);
});

test("1,000 concurrent bulk updates with 100 keys are 100 updates over crashes", async (t) => {
  const { crashes } = await updateAll(await deployment(t), CRASHES_AT);
  assert.equal(crashes, CRASHES_AT.length);
});
