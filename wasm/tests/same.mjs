// The service does the same natively and as WebAssembly: random requests from one seed are answered with the same bytes,
// and leave the same bytes behind.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

import "../pkg-testing/node.js";
import { volatile } from "../pkg-testing/harnesses.js";
import { MemoryStore } from "../pkg-testing/stores/memory.js";
import { converse, simulate } from "../pkg-testing/testing.js";

const SEEDS = 24;
const SIMULATIONS = 8;
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

/** What is spoken of in so many conversations: requests that succeed, signed messages, what is swept and delivered. */
const SAID = [
  /^PATCH \/v1\/memories\/bulk .*\n  200$/m,
  /^POST \/v1\/inbound\/.*\n  204$/m,
  /^maintain Maintained \{ swept: [1-9]/m,
  /^  Attempt \{.* Ok\(Delivered\)$/m,
];

const memory = volatile(() => new MemoryStore());

/** The first line in which two texts differ, for people. */
function difference(native, wasm) {
  const [left, right] = [native.split("\n"), wasm.split("\n")];
  const at = left.findIndex((line, number) => line !== right[number]);
  return at < 0 ? "" : `line ${at + 1}:\n${left[at]}\n${right[at]}`;
}

test("the same requests have the same answers and leave the same behind", async () => {
  const program = process.env.KNOWLEDGE_CONVERSATION;
  assert.ok(program, "KNOWLEDGE_CONVERSATION names the program; cargo xtask ci --only wasm does");
  const firstSeed = Math.floor(Math.random() * 2 ** 31);
  let all = "";
  for (let seed = firstSeed; seed < firstSeed + SEEDS; seed++) {
    const options = { maxBuffer: OUTPUT_BYTES_MAX };
    const { stdout } = await promisify(execFile)(program, [String(seed)], options);
    const wasm = await converse(memory, seed);
    assert.ok(stdout.split("\n").length > 100, "there is something to compare");
    assert.ok(stdout === wasm, `seed ${seed}, ${difference(stdout, wasm)}`);
    all += stdout;
  }
  for (const said of SAID) assert.match(all, said);
});

test("random operations do what the model says", async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  await simulate(memory, seed, SIMULATIONS, false);
  await simulate(memory, seed, SIMULATIONS, true);
});
