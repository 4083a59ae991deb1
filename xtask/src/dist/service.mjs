// Opens a service from the installed npm package, and asks it once.
import assert from "node:assert/strict";
import { KnowledgeService } from "knowledge-wasm";
import { MemoryStore } from "knowledge-wasm/stores/memory";

const sealingKey = crypto.getRandomValues(new Uint8Array(32));
const service = await KnowledgeService.open(new MemoryStore(), { sealingKey });
const owner = { handle: "maya", name: "Maya" };
await service.provision.createOrganization({ slug: "acme", name: "Acme", owner });
const workspace = await service.provision.createWorkspace("acme", { slug: "product", name: "Product" });
const { secret } = await service.provision.issueCredential("acme", {
  member: "maya",
  kind: "bearer",
  name: "first",
  expires_in_seconds: 60,
});
const url = `https://knowledge.example/v1/workspaces/${workspace.id}/dashboard-summary`;
const response = await service.fetch(new Request(url, { headers: { authorization: `Bearer ${secret}` } }));
assert.equal(response.status, 200);
assert.equal((await response.json()).workspace.slug, "product");
console.log("the npm package answers");
