// Tests that the service behaves identically natively and as WebAssembly: random requests from one
// seed give the same responses and the same stored bytes.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

import "../pkg-testing/node.js";
import { volatile } from "../pkg-testing/harnesses.js";
import { MemoryStore } from "../pkg-testing/stores/memory.js";
import { checkNonInterference, converse, simulate } from "../pkg-testing/testing.js";

const SEEDS = 24;
const SIMULATIONS = 8;
const PAIRS_OF_WORLDS = 40;
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

/** Events that these conversations must contain: updates, signed messages, purges, deliveries. */
const REQUIRED = [
  /^PATCH \/v1\/memories\/bulk .*\n  200$/m,
  /^POST \/v1\/inbound\/.*\n  204$/m,
  /^maintain MaintenanceReport \{ purged: [1-9]/m,
  /^  Attempt \{.* Ok\(Delivered\)$/m,
];

const memory = volatile(() => new MemoryStore());

/** Returns the first line in which two texts differ. */
function difference(native, wasm) {
  const [left, right] = [native.split("\n"), wasm.split("\n")];
  const at = left.findIndex((line, number) => line !== right[number]);
  return at < 0 ? "" : `line ${at + 1}:\n${left[at]}\n${right[at]}`;
}

test("the module gives the native responses and state", async () => {
  const program = process.env.KNOWLEDGE_CONVERSATION;
  assert.ok(program, "KNOWLEDGE_CONVERSATION must name the program; run cargo xtask ci --only wasm");
  const firstSeed = Math.floor(Math.random() * 2 ** 31);
  const converseTwice = async (_, number) => {
    const seed = firstSeed + number;
    const options = { maxBuffer: OUTPUT_BYTES_MAX };
    const { stdout } = await promisify(execFile)(program, [String(seed)], options);
    const wasm = await converse(memory, seed);
    assert.ok(stdout.split("\n").length > 100, "there is something to compare");
    assert.ok(stdout === wasm, `seed ${seed}, ${difference(stdout, wasm)}`);
    return stdout;
  };
  // Concurrently: each mostly waits for the other process.
  const all = (await Promise.all(Array.from({ length: SEEDS }, converseTwice))).join("");
  for (const required of REQUIRED) assert.match(all, required);
});

test("random operations match the model", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  await simulate(memory, seed, SIMULATIONS, false);
  await simulate(memory, seed, SIMULATIONS, true);
});

test("hidden things change no byte of any response", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  await checkNonInterference(memory, seed, PAIRS_OF_WORLDS);
});
