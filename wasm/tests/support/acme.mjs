// A sample organisation.

import { KnowledgeService } from "../../pkg/node.js";
import { MemoryStore } from "../../pkg/stores/memory.js";

export const SEALING_KEY = new Uint8Array(32).fill(7);
export const BASE = "https://knowledge.example";

/** Opens a service with an organisation, a workspace and the credentials of the owner. */
export async function acme(store = new MemoryStore(), options = {}) {
  const service = await KnowledgeService.open(store, { sealingKey: SEALING_KEY, ...options });
  const { provision } = service;
  const owner = { handle: "maya", name: "Maya" };
  await provision.createOrganization({ slug: "acme", name: "Acme", owner });
  const workspace = await provision.createWorkspace("acme", { slug: "product", name: "Product" });
  const issue = async (kind) => {
    const credential = { member: "maya", kind, name: kind, expires_in_seconds: 86_400 };
    return (await provision.issueCredential("acme", credential)).secret;
  };
  const token = await issue("bearer");
  const session = await issue("session");
  return { service, workspace, token, session };
}

/** Creates memories; returns their identifiers. */
export async function memories({ service, workspace, token }, count) {
  const body = { name: "Handbook", kind: "wiki" };
  const source = await service.createSource(token, { body });
  const ids = [];
  for (let number = 0; number < count; number++) {
    const body = { sourceId: source.id, title: `Page ${number}`, content: "Some content." };
    ids.push((await service.createMemory(token, { id: workspace.id, body })).id);
  }
  return ids;
}

/** Creates a request to the service, with an optional token. */
export function request(path, { token, ...init } = {}) {
  const headers = new Headers(init.headers);
  if (token) headers.set("authorization", `Bearer ${token}`);
  return new Request(BASE + path, { ...init, headers });
}
