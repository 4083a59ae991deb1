// Direct calls, provisioning and errors, in Node.js over the memory store.

import assert from "node:assert/strict";
import { test } from "node:test";

import initialise from "../pkg/knowledge.js";
import { KnowledgeError, KnowledgeService, StoreError } from "../pkg/node.js";
import { MemoryStore } from "../pkg/stores/memory.js";
import { SEALING_KEY, acme, memories, request } from "./support/acme.mjs";

test("direct calls cover the first requests of the guide", async () => {
  const context = await acme();
  const { service, workspace, token, session } = context;
  const ids = await memories(context, 2);

  const update = { memoryIds: ids, sensitivityLabel: "confidential", reviewStatus: "approved" };
  const fresh = await service.bulkUpdate(token, "one", update);
  assert.deepEqual(fresh.summary, { requested: 2, succeeded: 2, failed: 0 });
  const replayed = await service.bulkUpdateMemories(token, { idempotencyKey: "one", body: update });
  assert.deepEqual(replayed, { ...fresh, replayed: true });

  const summary = await service.dashboardSummary(token, workspace.id);
  assert.deepEqual(summary, await service.getDashboardSummary(token, { id: workspace.id }));

  const { data: role } = await service.createCustomRole(session, {
    orgSlug: "acme",
    body: { name: "R", slug: "r", base_role: "viewer", description: "", actions: { allow: [], deny: [] } },
  });
  const path = { orgSlug: "acme", roleId: role.id };
  const roles = await service.listCustomRoles(session, { orgSlug: "acme" });
  assert.deepEqual(roles.data, [role]);
  const changed = await service.updateCustomRole(session, { ...path, body: { name: "Readers" } });
  assert.equal(changed.data.name, "Readers");
  assert.equal(await service.deleteCustomRole(session, path), undefined);

  const body = { recall_id: (await makeRecall(context, ids)).id, webhook_url: "https://hooks.example/cited" };
  const subscription = await service.createCitationSubscription(token, { body });
  assert.match(subscription.signing_secret, /^whsec_/);
  const webhook = await service.createWebhook(token, {
    id: workspace.id,
    body: { event_type: "memory.updated", url: "https://hooks.example/updated" },
  });
  assert.equal(webhook.event_type, "memory.updated");
  const inbound = await service.createInboundWebhook(token, { id: workspace.id, body: { name: "In" } });
  assert.match(inbound.url, /^\/v1\/inbound\//);
});

function makeRecall({ service, workspace, token }, memoryIds) {
  return service.createRecall(token, { id: workspace.id, body: { query: "What?", memory_ids: memoryIds } });
}

test("call returns the status, headers and body", async () => {
  const { service, workspace, token } = await acme();
  const { status, headers, body } = await service.call("getDashboardSummary", token, { id: workspace.id });
  assert.equal(status, 200);
  assert.match(headers.get("etag"), /^W\//);
  const ifNoneMatch = headers.get("etag");
  const again = await service.call("getDashboardSummary", token, { id: workspace.id, ifNoneMatch });
  assert.deepEqual([again.status, again.body], [304, undefined]);
  assert.equal(body.workspace.id, workspace.id);
});

test("query parameters page a list", async () => {
  const context = await acme();
  const { service, workspace, token } = context;
  const ids = await memories(context, 3);
  const first = await service.listMemories(token, { id: workspace.id, limit: 2 });
  const second = await service.listMemories(token, { id: workspace.id, limit: 2, cursor: first.next_cursor });
  const listed = [...first.data, ...second.data].map(({ id }) => id);
  assert.deepEqual(listed.sort(), ids.sort());
});

test("a rejected call throws its code and details", async () => {
  const { service, workspace, token } = await acme();
  const body = { name: "", kind: "wiki", more: true };
  const refused = await service.createSource(token, { body }).catch((error) => error);
  assert.ok(refused instanceof KnowledgeError && refused instanceof Error);
  assert.equal(refused.code, "invalid_request");
  assert.equal(refused.status, 400);
  assert.match(refused.requestId, /^[0-9a-f-]{36}$/);
  assert.deepEqual(refused.details.fields.map(({ path }) => path).sort(), ["more", "name"]);

  // This operation reports errors in headers.
  await assert.rejects(service.dashboardSummary("wkt_unknown", workspace.id), {
    name: "KnowledgeError",
    code: "unauthenticated",
    status: 401,
  });
  const nowhere = crypto.randomUUID();
  await assert.rejects(service.dashboardSummary(token, nowhere), { code: "not_found" });
});

test("an invalid call is rejected before it is made", async () => {
  const { service, token } = await acme();
  await assert.rejects(service.getSource(token, {}), TypeError);
  await assert.rejects(service.call("nothing", token), TypeError);
  const split = { idempotencyKey: "a\nauthorization: b", body: {} };
  await assert.rejects(service.bulkUpdateMemories(token, split), TypeError);
  for (const credential of [`${token}\nidempotency-key\none`, `${token}\ridempotency-key`, "wks_\ncookie"]) {
    await assert.rejects(service.listSources(credential), /line break/);
  }
  // A parameter is always one segment of the path.
  await assert.rejects(service.getSource(token, { id: "../sources" }), { code: "not_found" });
});

test("arguments of the wrong type are rejected", async () => {
  const { service } = await acme();
  const options = { sealingKey: SEALING_KEY };
  for (const store of [undefined, null, {}, "store"]) {
    await assert.rejects(KnowledgeService.open(store, options), {
      name: "TypeError",
      message: "the store has no method read and no method commit; a store must have read and commit",
    });
  }
  for (const now of [NaN, Infinity, new Date(NaN), 8.64e15 + 1, "2026-01-01", 0n, true, []]) {
    await assert.rejects(service.maintain(now), TypeError, String(now));
    await assert.rejects(service.dispatch(fetch, now), TypeError, String(now));
  }
  for (const sender of [undefined, null, new Date(), "fetch"]) {
    await assert.rejects(service.dispatch(sender), TypeError);
  }
  // The earliest valid time, and an early one: nothing is due.
  assert.equal((await service.maintain(-8.64e15)).swept, 0);
  assert.equal((await service.maintain(new Date(0))).swept, 0);
});

test("open rejects a store without read or commit", async () => {
  const options = { sealingKey: SEALING_KEY };
  const [read, commit] = [() => [], () => null];
  const former = { get: () => [], scan: () => [], commit };
  for (const [store, missing] of [[former, "read"], [{ commit }, "read"], [{ read }, "commit"]]) {
    await assert.rejects(KnowledgeService.open(store, options), {
      name: "TypeError",
      message: `the store has no method ${missing}; a store must have read and commit`,
    });
  }
});

test("maintain defaults to the current time", async (t) => {
  const { service } = await acme();
  const later = Date.now() + 30 * 86_400_000;
  for (const now of [null, undefined]) assert.equal((await service.maintain(now)).swept, 0);
  t.mock.method(Date, "now", () => later);
  assert.ok((await service.maintain(null)).swept >= 2, "the two credentials");
});

test("a closed service frees its memory and rejects calls", async () => {
  const store = new SlowStore();
  const { service } = await acme(store);
  const waiting = service.ready();
  service.close();
  service.close();
  await waiting;
  for (const call of [
    () => service.ready(),
    () => service.maintain(),
    () => service.provision.organizations(),
    () => service.fetch(request("/v1/sources")),
  ]) {
    await assert.rejects(call, { name: "KnowledgeError", code: "closed" });
  }
  if (Symbol.dispose) assert.equal(KnowledgeService.prototype[Symbol.dispose], KnowledgeService.prototype.close);

  const { memory } = await initialise();
  // Kept alive, so that the garbage collector does not free them.
  const closed = [];
  const openAndClose = async (count) => {
    for (let number = 0; number < count; number++) {
      const service = await KnowledgeService.open(new MemoryStore(), { sealingKey: SEALING_KEY });
      service.close();
      closed.push(service);
    }
  };
  await openAndClose(20);
  const before = memory.buffer.byteLength;
  await openAndClose(200);
  // Without close each would hold 37 kB; the allocator may still take another page.
  const grown = memory.buffer.byteLength - before;
  assert.ok(grown <= 1024 * 1024, `${grown} bytes more`);
});

test("provision manages members, roles and credentials", async () => {
  const { service } = await acme();
  const { provision } = service;
  assert.deepEqual((await provision.organizations()).data.map(({ slug }) => slug), ["acme"]);
  const member = { handle: "noor", name: "Noor", role: "member", teams: ["platform"] };
  assert.equal((await provision.createMember("acme", member)).role, "member");
  const promoted = await provision.assignRole("acme", "noor", { role: "viewer", workspace: "product" });
  assert.deepEqual(promoted.workspace_roles, [{ workspace: "product", role: "viewer" }]);
  const demoted = await provision.endWorkspaceRole("acme", "noor", "product");
  assert.deepEqual(demoted.workspace_roles, []);
  const wanted = { member: "noor", kind: "bearer", name: "t", expires_in_seconds: 60 };
  const { secret, credential } = await provision.issueCredential("acme", wanted);
  assert.deepEqual((await service.listSources(secret)).data, []);
  assert.equal((await provision.revokeCredential("acme", credential.id)).state, "revoked");
  await assert.rejects(service.listSources(secret), { code: "unauthenticated" });
  const listed = await provision.credentials("acme", { kind: "bearer" });
  assert.deepEqual(listed.data.map(({ state }) => state).sort(), ["revoked", "valid"]);
  assert.equal(await provision.removeMember("acme", "noor"), undefined);
  await assert.rejects(provision.member("acme", "noor"), { code: "not_found" });
  await assert.rejects(provision.createOrganization({ slug: "acme", name: "A", owner: { handle: "a", name: "A" } }), {
    code: "slug_taken",
    status: 409,
  });
});

test("a store reopens only with its own key", async () => {
  const store = new MemoryStore();
  await acme(store);
  const base64 = Buffer.from(SEALING_KEY).toString("base64");
  const again = await KnowledgeService.open(store, { sealingKey: base64 });
  assert.equal((await again.provision.organization("acme")).slug, "acme");
  const other = new Uint8Array(32).fill(8);
  await assert.rejects(KnowledgeService.open(store, { sealingKey: other }), { code: "other_sealing_key" });
});

test("open rejects invalid options", async () => {
  const open = (options) => KnowledgeService.open(new MemoryStore(), { sealingKey: SEALING_KEY, ...options });
  for (const options of [
    { sealingKey: undefined },
    { sealingKey: "short" },
    { sealingKey: new Uint8Array(31) },
    { limits: { bulkMemoriesMax: 5_000 } },
    { limits: { bulkMemoriesMax: -1 } },
    { limits: { bulk_memories_max: 5 } },
    { webhooks: { allow: ["everything"] } },
    { publicUrl: "knowledge.example" },
    { publicUrl: "not a url?x" },
    { publicUrl: "https://maya:secret@knowledge.example" },
    { trustedOrigins: ["https://a.example/"] },
    { trustedOrigins: ["https://A.example"] },
    { trustedOrigins: ["https://a.example", "*"] },
    { auditReads: "all" },
    { unknown: true },
  ]) {
    await assert.rejects(open(options), { code: "invalid_options" }, JSON.stringify(options));
  }
});

test("open reports the kind of a store's failure", async () => {
  const failures = { full: "full", corrupt: "corrupt", invalid: "corrupt", unavailable: "unavailable" };
  for (const [kind, code] of Object.entries(failures)) {
    const store = new FailingStore();
    store.failure = {
      commit() {
        throw new StoreError(kind, "the commit failed");
      },
    };
    await assert.rejects(KnowledgeService.open(store, { sealingKey: SEALING_KEY }), { code }, kind);
  }
});

/** An error whose message cannot be read. */
const UNREADABLE = Object.defineProperty(new Error(), "message", {
  get() {
    throw new Error("there is no message");
  },
});

/** A store whose methods fail once `failure` is set. */
class FailingStore extends MemoryStore {
  failure = undefined;
  #unless(method, ...values) {
    if (this.failure?.[method]) return this.failure[method]();
    return super[method](...values);
  }
  read(reads) {
    return this.#unless("read", reads);
  }
  commit(checks, mutations) {
    return this.#unless("commit", checks, mutations);
  }
}

test("a failing store gives an error, whatever it throws", async (t) => {
  const store = new FailingStore();
  const { service, token } = await acme(store);
  const logged = t.mock.method(console, "warn", () => {});
  t.mock.method(console, "error", () => {});
  const throws = (error) => () => {
    throw error;
  };
  const rejects = (error) => async () => {
    throw error;
  };
  const cases = [
    [{ read: throws(new StoreError("unavailable", "the disk is offline")) }, "unavailable"],
    [{ read: rejects(new StoreError("corrupt", "a bit is flipped")) }, "internal"],
    [{ read: throws("a text") }, "unavailable"],
    [{ read: throws(UNREADABLE) }, "unavailable"],
    [{ read: () => undefined }, "internal"],
    [{ read: () => [] }, "internal"],
    [{ commit: throws(new StoreError("full", "the disk is full")) }, "unavailable"],
    [{ commit: rejects(new Error("the answer was lost")) }, "unavailable"],
    [{ commit: () => "done" }, "unavailable"],
  ];
  for (const [failure, code] of cases) {
    store.failure = failure;
    const body = { name: "Handbook", kind: "wiki" };
    const error = await service.createSource(token, { body }).catch((error) => error);
    assert.equal(error.code, code, `${Object.keys(failure)}: ${Object.values(failure)}`);
  }
  store.failure = { read: throws(new StoreError("unavailable", "the disk is offline")) };
  const response = await service.fetch(request("/v1/sources", { token }));
  assert.equal(response.status, 503);
  assert.equal(response.headers.get("retry-after"), "1");
  assert.ok(!(await response.text()).includes("the disk is offline"), "the response hides the reason");
  assert.ok(logged.mock.calls.some(({ arguments: [line] }) => line.includes("the disk is offline")));
  await assert.rejects(service.ready(), { code: "unavailable", details: { reason: "the disk is offline", retry_after_seconds: 1 } });
  store.failure = undefined;
  await service.ready();
});

/** A store with random delays, so that calls interleave. */
class SlowStore {
  #store = new MemoryStore();
  async #later(answer) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 3));
    return answer;
  }
  async read(reads) {
    await this.#later();
    return this.#later(this.#store.read(reads));
  }
  async commit(checks, mutations) {
    await this.#later();
    return this.#later(this.#store.commit(checks, mutations));
  }
}

test("concurrent bulk updates with one key are applied once", async () => {
  const context = await acme(new SlowStore());
  const { service, token } = context;
  const ids = await memories(context, 4);
  const KEYS = 20;
  const calls = Array.from({ length: 10 * KEYS }, (_, call) =>
    service.bulkUpdate(token, `key-${call % KEYS}`, { memoryIds: [ids[call % KEYS % 4]], sensitivityLabel: "internal" }),
  );
  const results = await Promise.allSettled(calls);
  const fresh = results.filter(({ value }) => value && !value.replayed);
  const replayed = results.filter(({ value }) => value?.replayed);
  const refused = results.filter(({ reason }) => reason);
  // An update with too many conflicts is rejected, to be retried.
  assert.ok(refused.every(({ reason }) => reason.code === "conflict"));
  assert.equal(new Set(fresh.map(({ value }) => value.operationId)).size, fresh.length);
  assert.ok(fresh.length <= KEYS && fresh.length + replayed.length + refused.length === calls.length);
  for (let key = 0; key < KEYS; key++) {
    const again = await service.bulkUpdate(token, `key-${key}`, { memoryIds: [ids[key % 4]], sensitivityLabel: "internal" });
    const same = results.filter(({ value }, call) => value && call % KEYS === key);
    assert.ok(same.every(({ value }) => value.operationId === again.operationId));
  }
});

test("maintain purges expired records", async () => {
  const { service } = await acme();
  const done = await service.maintain(Date.now() + 30 * 86_400_000);
  assert.ok(done.swept >= 2, "the two credentials");
  assert.ok(done.oldestDue instanceof Date);
  assert.deepEqual((await service.provision.credentials("acme")).data, []);
});
