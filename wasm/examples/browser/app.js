// A demo organisation in this browser: its dashboard, and bulk relabelling of its memories. Nothing
// leaves the page, and it works offline.

import { KnowledgeError, KnowledgeService } from "knowledge-wasm";
import { IndexedDbStore } from "knowledge-wasm/stores/indexeddb";

const DATABASE = "knowledge-demo";
/** Keys in local storage, which is safe enough for the secrets of a demo. */
const SEALING_KEY = "knowledge-demo-sealing-key";
const CALLER = "knowledge-demo-caller";
const YEAR_SECONDS = 365 * 24 * 60 * 60;
const MEMORIES = [
  ["How we name things", "public"],
  ["Who is on call", "internal"],
  ["What the beta taught us", "internal"],
  ["Prices of next year", "confidential"],
  ["Accounts that are at risk", "confidential"],
  ["Where the backups are", "restricted"],
];

const element = (id) => document.getElementById(id);

/** Creates an element with these properties and children. */
function make(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function sealingKey() {
  const kept = localStorage.getItem(SEALING_KEY);
  if (kept !== null) return kept;
  const made = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))));
  localStorage.setItem(SEALING_KEY, made);
  return made;
}

/** Creates the organisation with its memories, or completes an interrupted creation. */
async function makeDemo(service) {
  const { provision } = service;
  const owner = { handle: "maya", name: "Maya" };
  if ((await provision.organizations()).data.length === 0) {
    await provision.createOrganization({ slug: "demo", name: "Demo", owner });
  }
  const [workspace] = (await provision.workspaces("demo")).data;
  const { id } = workspace ?? (await provision.createWorkspace("demo", { slug: "product", name: "Product" }));
  const { secret: token } = await provision.issueCredential("demo", {
    member: owner.handle,
    kind: "bearer",
    name: "this page",
    expires_in_seconds: YEAR_SECONDS,
  });
  if ((await service.listMemories(token, { id, limit: 1 })).data.length === 0) {
    const source = await service.createSource(token, { body: { name: "Handbook", kind: "wiki" } });
    const memories = MEMORIES.map(([title, sensitivity_label]) => ({
      title,
      content: `${title}, in detail.`,
      sensitivity_label,
    }));
    await service.ingestMemories(token, { id, body: { source_id: source.id, memories } });
  }
  const caller = { token, workspace: id };
  localStorage.setItem(CALLER, JSON.stringify(caller));
  return caller;
}

/** Opens the demo. Concurrent pages take turns, so that it is created once. */
function openDemo() {
  return navigator.locks.request(DATABASE, async () => {
    const store = await IndexedDbStore.open(DATABASE);
    const service = await KnowledgeService.open(store, { sealingKey: sealingKey() });
    const caller = JSON.parse(localStorage.getItem(CALLER)) ?? (await makeDemo(service));
    return { service, ...caller };
  });
}

/** Deletes the demo, also for other pages that show it, and starts again. */
async function reset() {
  if (!confirm("Delete the demo with all changes to it?")) return;
  await new Promise((resolve, reject) => {
    const deleting = indexedDB.deleteDatabase(DATABASE);
    deleting.onsuccess = resolve;
    deleting.onerror = () => reject(deleting.error);
  });
  localStorage.removeItem(CALLER);
  localStorage.removeItem(SEALING_KEY);
  location.reload();
}

function figure(name, value) {
  return make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }));
}

function steps(title, steps) {
  const item = ({ label, completed }) =>
    make(
      "li",
      { className: completed ? "done" : "open" },
      make("span", { className: "state", textContent: completed ? "Done: " : "To do: " }),
      label,
    );
  const done = steps.filter(({ completed }) => completed).length;
  const heading = make("h3", { textContent: title }, make("small", { textContent: ` ${done} of ${steps.length}` }));
  return make("div", {}, heading, make("ul", {}, ...steps.map(item)));
}

function row({ id, title, sensitivityLabel, reviewStatus }) {
  const box = make("input", { type: "checkbox", value: id, ariaLabel: `Select ${title}` });
  const badge = (text) => make("span", { className: `badge ${text}`, textContent: text });
  const name = make("th", { scope: "row", textContent: title });
  const [selected, label, review] = [box, badge(sensitivityLabel), badge(reviewStatus)].map((it) => make("td", {}, it));
  return make("tr", {}, selected, name, label, review);
}

class Page {
  constructor({ service, token, workspace }) {
    this.service = service;
    this.token = token;
    this.workspace = workspace;
  }

  async show() {
    const summary = await this.service.dashboardSummary(this.token, this.workspace);
    const { data } = await this.service.listMemories(this.token, { id: this.workspace, limit: 200 });
    element("workspace").textContent = summary.workspace.name;
    element("figures").replaceChildren(
      figure("Memories", data.length),
      figure("Waiting for review", summary.review_backlog_count),
      figure("Restricted", data.filter(({ sensitivityLabel }) => sensitivityLabel === "restricted").length),
    );
    const { required, suggested } = summary.first_value_checklist;
    element("checklist").replaceChildren(steps("First steps", required), steps("Worth a try", suggested));
    // Memories of one request have no defined order.
    const byTitle = data.toSorted((left, right) => left.title.localeCompare(right.title));
    element("memories").replaceChildren(...byTitle.map(row));
    element("all").checked = false;
    element("demo").hidden = false;
  }

  async relabel() {
    const boxes = document.querySelectorAll("#memories input:checked");
    const memoryIds = [...boxes].map(({ value }) => value);
    if (memoryIds.length === 0) {
      element("result").textContent = "Select memories to relabel.";
      return;
    }
    const update = { memoryIds, sensitivityLabel: element("label").value };
    const { summary } = await this.service.bulkUpdate(this.token, crypto.randomUUID(), update);
    await this.show();
    element("result").textContent = `${summary.succeeded} of ${summary.requested} relabelled.`;
  }
}

/** Returns the message of an error for the user of the page. */
function explain(error) {
  if (error instanceof KnowledgeError && error.code === "other_sealing_key") {
    return "The demo is still stored, but the key that seals it was cleared.";
  }
  return error instanceof KnowledgeError ? `${error.message} (${error.code})` : String(error);
}

function showProblem(error) {
  console.error(error);
  element("reason").textContent = explain(error);
  element("problem").hidden = false;
  if (element("demo").hidden) element("workspace").textContent = "Not open";
}

function showConnection() {
  element("connection").textContent = navigator.onLine ? "Online" : "Offline: everything still works";
  element("connection").className = navigator.onLine ? "online" : "offline";
}

/** Caches the page for offline use. If that fails, the page still works online. */
async function keepPage() {
  try {
    await navigator.serviceWorker.register("service-worker.js");
  } catch (error) {
    console.warn("The page is not available offline:", error);
  }
}

async function main() {
  for (const button of document.querySelectorAll("[data-reset]")) {
    button.addEventListener("click", () => reset().catch(showProblem));
  }
  addEventListener("online", showConnection);
  addEventListener("offline", showConnection);
  showConnection();
  keepPage();
  const page = new Page(await openDemo());
  element("relabel").addEventListener("submit", (event) => {
    event.preventDefault();
    page.relabel().catch(showProblem);
  });
  element("all").addEventListener("change", ({ target }) => {
    for (const box of document.querySelectorAll("#memories input")) box.checked = target.checked;
  });
  await page.show();
}

main().catch(showProblem);
