// Measures the built package in Node.js, over the store in memory, and asserts its answers:
//
//   node wasm/tools/bench.mjs [--json] [--short] [--only-native] [NATIVE]
//
// NATIVE is the compiled benchmark `service` of the crate `knowledge-benches`, which measures the
// same operations natively. The two then take turns, and the last column is their ratio. Each round
// is a process of its own; what is printed is the median over the rounds of the median of a round.
//
// `--json` prints the figures of each round instead, for `cargo xtask bench`, with the size of the
// module in bytes (gzip). `--short` makes one short round, and `--only-native` measures NATIVE only.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { constants, gzipSync } from "node:zlib";

const flag = { type: "boolean", default: false };
const { values: options, positionals } = parseArgs({
  options: { json: flag, short: flag, "only-native": flag, round: flag },
  allowPositionals: true,
});
const ROUNDS = options.short ? 1 : 5;
/** The time for which each operation is measured in a round, after as long a time unmeasured. */
const ROUND_MS = options.short ? 50 : 1_500;
/** Number of calls that are measured at once. */
const CALLS_AT_ONCE = 32;
/** Number of memories in the workspace, as in the native benchmark unless a round is short. */
const MEMORIES = options.short ? 2_000 : 20_000;
const BATCH_MEMORIES = 100;
const BULK_MEMORIES = 1_000;
/** Operations of the native benchmark; each has the name of the measurement that it is compared to. */
const NATIVE_GROUP = "service on memory";
const NATIVE = { dashboard: "dashboard", "bulk update 1000": "bulk of 1,000", "replay 1000": "replay of 1,000" };
/** Measurements that are compared to the native dashboard. */
const DASHBOARDS = ["dashboard", "dashboard, 32 at once", "dashboard by fetch", "dashboard by fetch, 32 at once"];

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Imports the package, and measures how long a first service takes to open. */
async function start() {
  const began = performance.now();
  const { KnowledgeService } = await import("../pkg/node.js");
  const { MemoryStore } = await import("../pkg/stores/memory.js");
  const sealingKey = crypto.getRandomValues(new Uint8Array(32));
  const service = await KnowledgeService.open(new MemoryStore(), { sealingKey });
  return { service, startMillis: performance.now() - began };
}

/** Creates an organisation with many memories. */
async function fill(service) {
  const { provision } = service;
  await provision.createOrganization({ slug: "acme", name: "Acme", owner: { handle: "maya", name: "Maya" } });
  const { id } = await provision.createWorkspace("acme", { slug: "product", name: "Product" });
  const credential = { member: "maya", kind: "bearer", name: "first", expires_in_seconds: 86_400 };
  const { secret } = await provision.issueCredential("acme", credential);
  const source = await service.createSource(secret, { body: { name: "Wiki", kind: "wiki" } });
  const memoryIds = [];
  while (memoryIds.length < MEMORIES) {
    const memories = Array.from({ length: BATCH_MEMORIES }, (_, number) => ({
      title: `Memory ${memoryIds.length + number}`,
      content: "What was decided, by whom, and why. ".repeat(8),
    }));
    const body = { source_id: source.id, memories };
    const ingested = await service.ingestMemories(secret, { id, body });
    memoryIds.push(...ingested.memories.map((memory) => memory.id));
  }
  return { service, secret, id, memoryIds };
}

/** Returns the calls that are measured, each of which asserts its answer. */
function calls({ service, secret, id, memoryIds }) {
  const url = `https://knowledge.example/v1/workspaces/${id}/dashboard-summary`;
  const headers = { authorization: `Bearer ${secret}` };
  let updates = 0;
  const update = (number) => ({
    memoryIds: Array.from({ length: BULK_MEMORIES }, (_, at) => memoryIds[(at * 19 + number) % MEMORIES]),
    audienceTag: `team:t${number}`,
    sensitivityLabel: "restricted",
  });
  const bulk = async (number, isReplayed) => {
    const result = await service.bulkUpdate(secret, `update-${number}`, update(number));
    assert.equal(result.replayed, isReplayed);
    assert.equal(result.summary.succeeded, BULK_MEMORIES);
  };
  return {
    async dashboard() {
      const summary = await service.dashboardSummary(secret, id);
      assert.equal(summary.review_backlog_count, MEMORIES);
    },
    async fetched() {
      const response = await service.fetch(new Request(url, { headers }));
      assert.equal(response.status, 200);
      assert.equal((await response.json()).review_backlog_count, MEMORIES);
    },
    bulk: () => bulk(++updates, false),
    replay: () => bulk(updates, true),
  };
}

/** Returns the median time of a call in microseconds, with some calls at once. */
async function measure(call, atOnce = 1) {
  const batch = () => Promise.all(Array.from({ length: atOnce }, call));
  const times = [];
  const warm = performance.now() + ROUND_MS;
  while (performance.now() < warm) await batch();
  const end = performance.now() + ROUND_MS;
  for (let began = performance.now(); began < end; ) {
    await batch();
    const ended = performance.now();
    times.push(((ended - began) * 1e3) / atOnce);
    began = ended;
  }
  return median(times);
}

const readModule = () => readFileSync(new URL("../pkg/knowledge_bg.wasm", import.meta.url));

async function measureRound() {
  const bytes = readModule();
  const began = performance.now();
  await WebAssembly.compile(bytes);
  const compiled = (performance.now() - began) * 1e3;
  const { service, startMillis } = await start();
  const { dashboard, fetched, bulk, replay } = calls(await fill(service));
  return {
    compile: compiled,
    "import and open": startMillis * 1e3,
    dashboard: await measure(dashboard),
    "dashboard, 32 at once": await measure(dashboard, CALLS_AT_ONCE),
    "dashboard by fetch": await measure(fetched),
    "dashboard by fetch, 32 at once": await measure(fetched, CALLS_AT_ONCE),
    "bulk of 1,000": await measure(bulk),
    "replay of 1,000": await measure(replay),
  };
}

/** Runs the native benchmark; returns its medians by the names of their measurements. */
function measureNative(program) {
  const home = mkdtempSync(join(tmpdir(), "knowledge-bench-"));
  const options = ["--bench", NATIVE_GROUP, "--noplot", "--warm-up-time", "1", "--measurement-time", "2"];
  execFileSync(program, options, { env: { ...process.env, CRITERION_HOME: home }, stdio: "ignore" });
  const read = (name) => JSON.parse(readFileSync(join(home, NATIVE_GROUP, name, "new/estimates.json")));
  const entries = Object.entries(NATIVE).map(([name, ours]) => [ours, read(name).median.point_estimate / 1e3]);
  rmSync(home, { recursive: true });
  return Object.fromEntries(entries);
}

/** Measures the package in a process of its own. */
function measureModule() {
  const round = [import.meta.filename, "--round", ...(options.short ? ["--short"] : [])];
  return JSON.parse(execFileSync(process.execPath, round));
}

function measureAll(program) {
  return Array.from({ length: ROUNDS }, () => ({
    native: program ? measureNative(program) : {},
    module: options["only-native"] ? {} : measureModule(),
  }));
}

function printTable(rounds) {
  console.log(`${"µs".padEnd(32)}${"module".padStart(9)}${"native".padStart(9)}${"ratio".padStart(9)}`);
  const column = (number, digits) => (Number.isNaN(number) ? "" : number.toFixed(digits)).padStart(9);
  for (const name of Object.keys({ ...rounds[0].module, ...rounds[0].native })) {
    const reference = DASHBOARDS.includes(name) ? "dashboard" : name;
    const ours = median(rounds.map(({ module }) => module[name] ?? NaN));
    const native = median(rounds.map(({ native }) => native[reference] ?? NaN));
    console.log(name.padEnd(32) + column(ours, 1) + column(native, 1) + column(ours / native, 2));
  }
}

/** Prints the rounds as one object. */
function printJson(rounds) {
  const gzip = () => gzipSync(readModule(), { level: constants.Z_BEST_COMPRESSION }).length;
  console.log(JSON.stringify({ rounds, gzip_bytes: options["only-native"] ? null : gzip() }));
}

if (options.round) console.log(JSON.stringify(await measureRound()));
else (options.json ? printJson : printTable)(measureAll(positionals[0]));
