// The service inside the page, over IndexedDB: its transport, and the organisation that it starts
// with.

import { takesSession } from "./client.js";

/** @typedef {import("../../../wasm/pkg/index.js").KnowledgeService} Service */
/** @typedef {{ token: string, session: string, organization: string }} Member */

const DATABASE = "knowledge-console";
/** Keys in local storage, which is safe enough for the secrets of a demo. */
const SEALING_KEY = "knowledge-console-sealing-key";
const MEMBER = "knowledge-console-member";
const ORGANIZATION = "demo";
const YEAR_SECONDS = 365 * 24 * 60 * 60;
/** @type {[title: string, sensitivity: import("../../../wasm/pkg/operations.js").SensitivityLabel][]} */
const MEMORIES = [
  ["How we name things", "public"],
  ["Who is on call", "internal"],
  ["What the beta taught us", "internal"],
  ["Prices of next year", "confidential"],
  ["Accounts that are at risk", "confidential"],
  ["Where the backups are", "restricted"],
];

/**
 * Opens the service in this page.
 * @param {string} packageUrl Address of `web.js` of the npm package.
 * @returns {Promise<{ transport: import("./client.js").Transport, organization: string }>}
 */
export async function openOffline(packageUrl) {
  /** @type {typeof import("../../../wasm/pkg/index.js")} */
  const { KnowledgeService } = await import(packageUrl);
  /** @type {typeof import("../../../wasm/pkg/stores/indexeddb.js")} */
  const { IndexedDbStore } = await import(new URL("stores/indexeddb.js", packageUrl).href);
  // Concurrent pages take turns, so that the organisation is created once.
  return navigator.locks.request(DATABASE, async () => {
    const service = await KnowledgeService.open(await IndexedDbStore.open(DATABASE), { sealingKey: sealingKey() });
    const stored = localStorage.getItem(MEMBER);
    const member = stored === null ? await createDemo(service) : /** @type {Member} */ (JSON.parse(stored));
    return { transport: offlineTransport(service, member), organization: member.organization };
  });
}

/**
 * Returns the transport to a service in this page.
 * @param {Service} service
 * @param {Member} member
 * @returns {import("./client.js").Transport}
 */
function offlineTransport(service, { token, session }) {
  return ({ method, path, headers, body }) => {
    if (takesSession(path)) {
      headers.set("cookie", `service_session=${session}`);
    } else {
      headers.set("authorization", `Bearer ${token}`);
    }
    // A real `Request` would drop the cookie, which browsers do not let scripts set.
    const request = { method, url: new URL(path, location.origin).href, headers, body: new Response(body).body };
    return service.fetch(/** @type {Request} */ (/** @type {unknown} */ (request)));
  };
}

function sealingKey() {
  const stored = localStorage.getItem(SEALING_KEY);
  if (stored !== null) return stored;
  const created = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))));
  localStorage.setItem(SEALING_KEY, created);
  return created;
}

/**
 * Creates the organisation with its memories, or completes an interrupted creation.
 * @param {Service} service
 * @returns {Promise<Member>}
 */
async function createDemo(service) {
  const { provision } = service;
  const owner = { handle: "maya", name: "Maya" };
  if ((await provision.organizations()).data.length === 0) {
    await provision.createOrganization({ slug: ORGANIZATION, name: "Demo", owner });
  }
  const [existing] = (await provision.workspaces(ORGANIZATION)).data;
  const workspace = existing ?? (await provision.createWorkspace(ORGANIZATION, { slug: "product", name: "Product" }));
  const [token, session] = await Promise.all(
    /** @type {const} */ (["bearer", "session"]).map(async (kind) => {
      const credential = { member: owner.handle, kind, name: "this page", expires_in_seconds: YEAR_SECONDS };
      return (await provision.issueCredential(ORGANIZATION, credential)).secret;
    }),
  );
  const member = { token: String(token), session: String(session), organization: ORGANIZATION };
  if ((await service.listMemories(member.token, { id: workspace.id, limit: 1 })).data.length === 0) {
    const source = await service.createSource(member.token, { body: { name: "Handbook", kind: "wiki" } });
    const memories = MEMORIES.map(([title, sensitivity_label]) => ({
      title,
      content: `${title}, in detail.`,
      sensitivity_label,
    }));
    await service.ingestMemories(member.token, { id: workspace.id, body: { source_id: source.id, memories } });
  }
  localStorage.setItem(MEMBER, JSON.stringify(member));
  return member;
}
