// Tests of the Deno example: served over HTTP with the command of its task, across crashes.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  OPERATOR_TOKEN,
  assertDelivers,
  organization,
  wanted,
} from "./support/deployed.mjs";
import { DenoExample, started } from "./support/examples.mjs";
import { updateAll } from "./support/updates.mjs";

/** Numbers of acknowledged keys at which Deno is killed. */
const CRASHES_AT = [1, 10, 50];

test("acknowledged changes survive a crash", async (t) => {
  const deployed = await started(new DenoExample(t));
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

test("the operator API requires the operator's token", async (t) => {
  const { ask } = await started(new DenoExample(t));
  await organization(ask, "acme");
  const { data } = await ask("GET", "/admin/v1/orgs", OPERATOR_TOKEN);
  assert.deepEqual(data.map(({ slug }) => slug), ["acme"]);
  for (const guess of ["guessed", "", `${OPERATOR_TOKEN}!`]) {
    await ask("GET", "/admin/v1/orgs", guess, undefined, { status: 401 });
    await ask("POST", "/admin/v1/orgs", guess, wanted("globex"), { status: 401 });
  }
});

test("the server delivers events by itself", async (t) => {
  const { ask } = await started(new DenoExample(t));
  await assertDelivers(t, ask);
});

test("1,000 bulk updates with 100 keys apply 100 across crashes", async (t) => {
  const { crashes } = await updateAll(await started(new DenoExample(t)), CRASHES_AT);
  assert.equal(crashes, CRASHES_AT.length);
});
