// Tests of the worker example, in workerd: organisations in Durable Objects, across crashes.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import {
  OPERATOR_TOKEN,
  assertDelivers,
  endpoint,
  issue,
  memories,
  organization,
  signed,
  wanted,
} from "./support/deployed.mjs";
import { WorkerExample, started } from "./support/examples.mjs";
import { NODE, WRANGLER } from "./support/process.mjs";
import { updateAll } from "./support/updates.mjs";

/** Numbers of acknowledged keys at which workerd is killed. */
const CRASHES_AT = [1, 5, 10, 20, 30, 50];

test("the worker routes credentials to their organisation", async (t) => {
  const { ask } = await started(new WorkerExample(t));
  const acme = await organization(ask, "acme");
  const globex = await organization(ask, "globex");
  const path = ({ workspace }) => `/v1/workspaces/${workspace.id}/dashboard-summary`;
  for (const [org, slug] of [[acme, "acme"], [globex, "globex"]]) {
    assert.equal((await ask("GET", path(org), org.token)).workspace.id, org.workspace.id);
    assert.deepEqual(await ask("GET", `/v1/orgs/${slug}/custom-roles`, org.session), { data: [] });
  }
  await ask("GET", path(globex), acme.token, undefined, { status: 404 });
  await ask("GET", "/v1/orgs/globex/custom-roles", acme.session, undefined, { status: 404 });
  const unknown = `${acme.token.slice(0, -4)}AAAA`;
  await ask("GET", path(acme), unknown, undefined, { status: 401 });
  await ask("GET", path(acme), "nothing", undefined, { status: 401 });
  // If a browser also sends its session with another member's token, each path uses its own kind.
  const headers = { cookie: `service_session=${acme.session}` };
  await ask("GET", path(globex), globex.token, undefined, { headers });
  await ask("GET", "/v1/orgs/acme/custom-roles", globex.token, undefined, { headers });
});

test("the operator API requires the operator's token", async (t) => {
  const { ask } = await started(new WorkerExample(t));
  await organization(ask, "acme");
  await organization(ask, "globex");
  const { data, next_cursor } = await ask("GET", "/admin/v1/orgs", OPERATOR_TOKEN);
  assert.deepEqual(data.map(({ slug }) => slug), ["acme", "globex"]);
  assert.equal(next_cursor, null);

  for (const guess of ["guessed", "", `${OPERATOR_TOKEN}!`]) {
    for (const path of ["/admin/v1/orgs", "/admin/v1/orgs/acme", "/admin/v1/nothing"]) {
      await ask("GET", path, guess, undefined, { status: 401 });
    }
    await ask("POST", "/admin/v1/orgs", guess, wanted("initech"), { status: 401 });
  }
  await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, wanted("acme"), { status: 409 });
  await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, { slug: "Not a slug" }, { status: 400 });
  await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, undefined, { status: 400 });
  await ask("GET", "/admin/v1/orgs/nobody", OPERATOR_TOKEN, undefined, { status: 404 });
});

test("a repeated request enters an organisation after a crash", async (t) => {
  const deployed = new WorkerExample(t);
  // The first entry in the directory fails, as after a crash between creation and entry.
  const wrapper = `import worker, { Directory as Whole, Organization } from "worker.js";
    export { Organization };
    let isAway = true;
    export class Directory extends Whole {
      enter(organization) {
        if (isAway) {
          isAway = false;
          throw new Error("the directory is unavailable");
        }
        return super.enter(organization);
      }
    }
    export default worker;`;
  const entry = "  modules = [\n";
  deployed.configure(entry, `${entry}    (name = "main.js", esModule = ${JSON.stringify(wrapper)}),\n`);
  await deployed.start();
  const { ask } = deployed;
  await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, wanted("acme"), { status: 500 });
  await ask("POST", "/admin/v1/orgs", OPERATOR_TOKEN, wanted("acme"), { status: 409 });
  const token = await issue(ask, "acme", "bearer");
  assert.deepEqual((await ask("GET", "/v1/workspaces", token)).data, []);
});

test("the worker routes inbound messages by their URL", async (t) => {
  const { ask, url } = await started(new WorkerExample(t));
  const acme = await organization(ask, "acme");
  const hooks = `/v1/workspaces/${acme.workspace.id}/inbound-webhooks`;
  const hook = await ask("POST", hooks, acme.token, { name: "Status page" }, { status: 201 });
  const { pathname } = new URL(hook.url);
  const post = async (path, id) => {
    const body = JSON.stringify({ memories: [{ title: id, content: "Some content." }] });
    const headers = { "content-type": "application/json", ...signed(hook.signing_secret, id, body) };
    return (await fetch(url + path, { method: "POST", headers, body })).status;
  };
  assert.equal(await post(pathname, "first"), 204);
  assert.equal(await post(pathname.replace(acme.id, acme.id.toUpperCase()), "second"), 204);
  // Identifiers need their hyphens.
  assert.equal(await post(pathname.replace(acme.id, acme.id.replaceAll("-", "")), "third"), 404);
  const { data } = await ask("GET", `/v1/workspaces/${acme.workspace.id}/memories`, acme.token);
  assert.deepEqual(data.map(({ title }) => title), ["first", "second"]);
});

/** Starts the example with deliveries to this machine, which it forbids by default. */
async function reachingThisMachine(t) {
  const deployed = new WorkerExample(t);
  deployed.configure("  services = [\n", `  services = [\n    (name = "internet", network = (allow = ["private"])),\n`);
  return started(deployed);
}

test("an alarm delivers events", async (t) => {
  const { ask } = await reachingThisMachine(t);
  await assertDelivers(t, ask);
});

test("an alarm delivers the event of a rejected message", async (t) => {
  const { ask, url } = await reachingThisMachine(t);
  const acme = await organization(ask, "acme");
  const changed = await endpoint(t);
  const refused = await endpoint(t);
  const hooks = `/v1/workspaces/${acme.workspace.id}/webhooks`;
  await ask("POST", hooks, acme.token, { event_type: "memory.updated", url: changed.url }, { status: 201 });
  await ask("POST", hooks, acme.token, { event_type: "ingest.failed", url: refused.url }, { status: 201 });
  const inbound = `/v1/workspaces/${acme.workspace.id}/inbound-webhooks`;
  const hook = await ask("POST", inbound, acme.token, { name: "Status page" }, { status: 201 });
  const [id] = await memories(ask, acme, 1);
  await ask("PATCH", `/v1/memories/${id}`, acme.token, { sensitivityLabel: "restricted" });
  // The alarm of these changes is over; the next one is in an hour.
  await changed.first;

  const body = JSON.stringify({ memories: [{ title: "without content" }] });
  const headers = { "content-type": "application/json", ...signed(hook.signing_secret, "message", body) };
  const answer = await fetch(url + new URL(hook.url).pathname, { method: "POST", headers, body });
  assert.equal(answer.status, 400);
  assert.equal(JSON.parse((await refused.first).body).type, "ingest.failed");
});

test("wrangler bundles a worker that runs", async (t) => {
  const deployed = new WorkerExample(t);
  const wrangler = deployed.scratch.start(NODE, [WRANGLER, "deploy", "--dry-run", "--outdir", "bundle"], {
    cwd: deployed.directory,
    env: { ...process.env, HOME: deployed.scratch.path, WRANGLER_HIDE_BANNER: "true", WRANGLER_SEND_METRICS: "false" },
  });
  let output = "";
  wrangler.stdout.on("data", (data) => (output += data));
  assert.equal(await wrangler.ended, 0, output);
  for (const binding of ["env.ORGANIZATION (Organization)", "env.DIRECTORY (Directory)", "env.PUBLIC_URL"]) {
    assert.ok(output.includes(binding), output);
  }

  // As on Cloudflare: one script, and the module.
  const [modules] = /  modules = \[[^]*?\n  \],\n/.exec(deployed.configuration);
  const wasm = readdirSync(join(deployed.directory, "bundle")).filter((name) => name.endsWith(".wasm"));
  assert.equal(wasm.length, 1);
  deployed.configure(
    modules,
    `  modules = [
    (name = "worker.js", esModule = embed "bundle/worker.js"),
    (name = "${wasm}", wasm = embed "bundle/${wasm}"),
  ],
`,
  );
  await deployed.start();
  const { ask } = deployed;
  const acme = await organization(ask, "acme");
  assert.equal((await ask("GET", "/v1/workspaces", acme.token)).data[0].id, acme.workspace.id);
});

test("1,000 concurrent bulk updates with 100 keys apply 100", async (t) => {
  const { outcomes } = await updateAll(await started(new WorkerExample(t)));
  assert.ok(outcomes.every(({ fresh, lost }) => fresh === 1 && lost === 0), "each key has one first response");
});

test("1,000 bulk updates with 100 keys apply 100 across crashes", async (t) => {
  const { crashes, unacknowledged } = await updateAll(await started(new WorkerExample(t)), CRASHES_AT);
  assert.equal(crashes, CRASHES_AT.length);
  // How many depends on the machine: a crash may come between no commit and its response.
  t.diagnostic(`${unacknowledged} updates survived a crash without having been acknowledged`);
});
