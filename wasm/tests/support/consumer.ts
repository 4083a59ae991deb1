// A sample application, which is compiled and never run.

import { KnowledgeError, KnowledgeService, StoreError } from "knowledge-wasm";
import type { BulkResult, DashboardSummary, KnowledgeErrorCode, Read, Store } from "knowledge-wasm";
import { initialise } from "knowledge-wasm/custom";
import { DurableObjectStore } from "knowledge-wasm/stores/durable-object";
import { IndexedDbStore } from "knowledge-wasm/stores/indexeddb";
import { MemoryStore } from "knowledge-wasm/stores/memory";
import { SqliteStore } from "knowledge-wasm/stores/sqlite";

const stores: Store[] = [new MemoryStore(), new SqliteStore(":memory:"), await IndexedDbStore.open("knowledge")];
const own: Store = {
  read: async (reads) => reads.map((read) => (read.type === "keys" ? read.keys.map(() => null) : [])),
  commit() {
    throw new StoreError("unavailable", "not implemented");
  },
};
// @ts-expect-error: a store must have two methods
const half: Store = { read: async () => [] };
// @ts-expect-error: there is no such type of read
const other: Read = { type: "prefix", keys: [] };

const service = await KnowledgeService.open(stores[0] ?? own, {
  sealingKey: new Uint8Array(32),
  limits: { bodyBytesMax: 1024 },
  webhooks: { allow: ["10.0.0.0/8"] },
});
// @ts-expect-error: the sealing key is required
await KnowledgeService.open(own, {});

const result: BulkResult = await service.bulkUpdate("wkt_", "key", { memoryIds: [], sensitivityLabel: "public" });
// @ts-expect-error: the idempotency key is required
await service.bulkUpdateMemories("wkt_", { body: { memoryIds: [], sensitivityLabel: "public" } });
// @ts-expect-error: an attribute has to be set
await service.bulkUpdate("wkt_", "key", { memoryIds: [] });
// @ts-expect-error: there is no such label
await service.bulkUpdate("wkt_", "key", { memoryIds: [], sensitivityLabel: "secret" });
const outcomes: string[] = result.results.map((item) => (item.ok ? item.memory.id : item.error.code));
const summary: DashboardSummary = await service.getDashboardSummary("wkt_", { id: "" });
// @ts-expect-error: only `call` returns and accepts an ETag
await service.getDashboardSummary("wkt_", { id: "", ifNoneMatch: "" });
const again = await service.call("getDashboardSummary", "wkt_", { id: "", ifNoneMatch: "" });
const changed: DashboardSummary | undefined = again.body;
// @ts-expect-error: a 304 has no body
const unchanged: DashboardSummary = again.body;
const { headers, body } = await service.call("listSources", "wkt_", { limit: 10 });
const names: string[] = body.data.map(({ name }) => name);
const response: Response = await service.fetch(new Request("https://knowledge.example/"));
const { nextDue } = await service.dispatch(fetch, new Date());
const due: Date | null = nextDue;
const { secret } = await service.provision.issueCredential("acme", {
  member: "maya",
  kind: "bearer",
  name: "first",
  expires_in_seconds: 60,
});
const codes: KnowledgeErrorCode[] = [new KnowledgeError({ code: "internal", message: secret }).code, "later_schema"];
// @ts-expect-error: there is no such code
const code: KnowledgeErrorCode = "no_such_code";
await initialise(new URL("https://knowledge.example/knowledge_bg.wasm"));
service.close();
{
  using scoped: Disposable = service;
  void scoped;
}

export { DurableObjectStore, changed, code, codes, due, half, headers, names, other, outcomes, response, result, summary, unchanged };
