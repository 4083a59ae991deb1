// Tests of the copies of stores that the module keeps.

import assert from "node:assert/strict";
import { test } from "node:test";

import { KnowledgeService } from "../pkg/node.js";
import { MemoryStore } from "../pkg/stores/memory.js";
import { SEALING_KEY, acme } from "./support/acme.mjs";

const ALL = { type: "range", range: { start: new Uint8Array([0]) }, limit: 2 ** 32 - 1, isReverse: false };
const names = async (service, token) => (await service.listSources(token)).data.map(({ name }) => name);
const create = (service, token, name) => service.createSource(token, { body: { name, kind: "wiki" } });

test("reads of a mirrored store do not leave the module", async (t) => {
  const read = t.mock.method(MemoryStore.prototype, "read");
  const { service, token, workspace } = await acme();
  const readsToOpen = read.mock.callCount();
  await create(service, token, "Handbook");
  await service.dashboardSummary(token, workspace.id);
  assert.deepEqual(await names(service, token), ["Handbook"]);
  assert.equal(read.mock.callCount(), readsToOpen);
});

test("services of one store see each other's commits", async (t) => {
  const store = new MemoryStore();
  const { service, token } = await acme(store);
  const other = await KnowledgeService.open(store, { sealingKey: SEALING_KEY });
  const read = t.mock.method(MemoryStore.prototype, "read");
  for (let number = 0; number < 4; number++) {
    await create(number % 2 ? service : other, token, `Source ${number}`);
    assert.equal((await names(service, token)).length, number + 1);
    assert.deepEqual(await names(other, token), await names(service, token));
  }
  assert.equal(read.mock.callCount(), 0, "they share a copy");
});

test("a commit by the application replaces the copy", async () => {
  const first = new MemoryStore();
  const { service, token } = await acme(first);
  const store = new MemoryStore();
  const copied = await KnowledgeService.open(store, { sealingKey: SEALING_KEY });
  await create(service, token, "Handbook");
  const [entries] = first.read([ALL]);
  store.commit([], entries.map(({ key, value }) => ({ type: "put", key, value })));
  assert.deepEqual(await names(copied, token), ["Handbook"]);
  await create(copied, token, "Wiki");
  assert.equal((await names(copied, token)).length, 2);
  assert.equal(store.read([ALL])[0].length > entries.length, true, "the store has all entries");
});

test("a dashboard follows commits by anyone", async () => {
  const store = new MemoryStore();
  const { service, token, workspace } = await acme(store);
  const other = await KnowledgeService.open(store, { sealingKey: SEALING_KEY });
  const before = store.read([ALL])[0];
  const connectors = async () => {
    const summary = () => service.dashboardSummary(token, workspace.id);
    const kept = await summary();
    assert.deepEqual(await summary(), kept, "nothing has changed");
    return kept.connector_health.length;
  };
  assert.equal(await connectors(), 0);
  const body = {
    account_label: "Team", kind: "wiki", scope: "workspace", sync_interval_seconds: 3600,
  };
  await other.createConnector(token, { id: workspace.id, body });
  assert.equal(await connectors(), 1, "after a commit by another service");
  // The application restores an earlier state, in which some keys do not exist.
  const stored = new Set(before.map(({ key }) => key.join()));
  const added = store.read([ALL])[0].filter(({ key }) => !stored.has(key.join()));
  const deleted = added.map(({ key }) => ({ type: "delete", key }));
  store.commit([], [...deleted, ...before.map(({ key, value }) => ({ type: "put", key, value }))]);
  assert.equal(await connectors(), 0, "after a commit by the application");
});

test("a store whose methods are replaced is called", async (t) => {
  const store = new MemoryStore();
  const { service, token } = await acme(store);
  const read = t.mock.method(store, "read");
  await names(service, token);
  assert.ok(read.mock.callCount() > 0);
  read.mock.restore();
});
