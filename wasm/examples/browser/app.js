// A demo organisation that lives in this browser: its dashboard, and its memories to be relabelled in bulk. Nothing leaves
// the page, and it works with the network off.

import { KnowledgeError, KnowledgeService } from "knowledge-wasm";
import { IndexedDbStore } from "knowledge-wasm/stores/indexeddb";

const DATABASE = "knowledge-demo";
const YEAR_SECONDS = 365 * 24 * 60 * 60;
const TITLES = [
  "How we name things",
  "Who is on call",
  "What the beta taught us",
  "Prices of next year",
  "Accounts that are at risk",
  "Where the backups are",
];

const element = (id) => document.getElementById(id);

/** What is kept beside the store: the key that it is sealed with, and the token. A demo's secrets need no safer place. */
function remembered(name, make) {
  const kept = localStorage.getItem(name);
  if (kept !== null) return kept;
  const made = make();
  localStorage.setItem(name, made);
  return made;
}

function newKey() {
  return btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))));
}

/** Makes the organisation with its memories: the first time, or where the first time came to no end. */
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
  const source = await service.createSource(token, { body: { name: "Handbook", kind: "wiki" } });
  const memories = TITLES.map((title) => ({ title, content: `${title}, in detail.`, source_key: title }));
  await service.ingestMemories(token, { id, body: { source_id: source.id, memories } });
  const demo = { token, workspace: id };
  localStorage.setItem("demo", JSON.stringify(demo));
  return demo;
}

function row(cells) {
  const row = document.createElement("tr");
  for (const cell of cells) {
    const data = document.createElement("td");
    data.append(cell);
    row.append(data);
  }
  return row;
}

function checkbox(id) {
  const box = Object.assign(document.createElement("input"), { type: "checkbox", value: id });
  box.setAttribute("aria-label", "Select");
  return box;
}

class Page {
  constructor(service, { token, workspace }) {
    this.service = service;
    this.token = token;
    this.workspace = workspace;
  }

  async show() {
    const summary = await this.service.dashboardSummary(this.token, this.workspace);
    const { data } = await this.service.listMemories(this.token, { id: this.workspace, limit: 200 });
    element("workspace").textContent = summary.workspace.name;
    const facts = { "Waiting for review": summary.review_backlog_count, Memories: data.length };
    element("summary").replaceChildren(
      ...Object.entries(facts).flatMap(([name, value]) => [
        Object.assign(document.createElement("dt"), { textContent: name }),
        Object.assign(document.createElement("dd"), { textContent: value }),
      ]),
    );
    const { required, suggested } = summary.first_value_checklist;
    const step = ({ label, completed }) =>
      Object.assign(document.createElement("li"), { textContent: `${completed ? "✓" : "○"} ${label}` });
    element("checklist").replaceChildren(...[...required, ...suggested].map(step));
    const rows = data.map((memory) =>
      row([checkbox(memory.id), memory.title, memory.sensitivityLabel, memory.reviewStatus]),
    );
    element("memories").replaceChildren(...rows);
    element("all").checked = false;
  }

  async relabel() {
    const boxes = document.querySelectorAll("#memories input:checked");
    const memoryIds = [...boxes].map(({ value }) => value);
    if (memoryIds.length === 0) {
      element("result").textContent = "Select what to relabel.";
      return;
    }
    const sensitivityLabel = element("label").value;
    const update = { memoryIds, sensitivityLabel };
    const { summary } = await this.service.bulkUpdate(this.token, crypto.randomUUID(), update);
    element("result").textContent = `${summary.succeeded} of ${summary.requested} relabelled.`;
    await this.show();
  }
}

function report(error) {
  element("state").textContent = error instanceof KnowledgeError ? `${error.code}: ${error.message}` : String(error);
}

function showConnection() {
  element("state").textContent = navigator.onLine
    ? "Kept in this browser; nothing is sent."
    : "Without a network, as well as with one.";
}

async function main() {
  // So that the page itself is there without a network.
  await navigator.serviceWorker?.register("service-worker.js");
  const sealingKey = remembered("sealing-key", newKey);
  const service = await KnowledgeService.open(await IndexedDbStore.open(DATABASE), { sealingKey });
  const demo = JSON.parse(localStorage.getItem("demo")) ?? (await makeDemo(service));
  const page = new Page(service, demo);
  element("relabel").addEventListener("submit", (event) => {
    event.preventDefault();
    page.relabel().catch(report);
  });
  element("all").addEventListener("change", ({ target }) => {
    for (const box of document.querySelectorAll("#memories input")) box.checked = target.checked;
  });
  addEventListener("online", showConnection);
  addEventListener("offline", showConnection);
  showConnection();
  await page.show();
}

main().catch(report);
