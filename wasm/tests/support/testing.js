// What the module of the tests exports, as promises. Copied beside the modules of the package, which it uses.

import { StoreBridge } from "./bridge.js";
import {
  conformance as runConformance,
  converse as runConverse,
  panic as runPanic,
  seed as runSeed,
  simulate as runSimulate,
} from "./knowledge.js";
import { loaded, run } from "./module.js";

/** A harness as Rust asks it: with stores behind their bridges. */
function bridged({ isDurable, open, reopen, caseBegins = () => {} }) {
  return {
    isDurable,
    open: async () => new StoreBridge(await open()),
    reopen: async () => new StoreBridge(await reopen()),
    caseBegins,
  };
}

async function task(begin) {
  await loaded();
  return run(begin);
}

/** The report of the conformance suite. */
export async function conformance(harness) {
  return JSON.parse(await task(() => runConformance(bridged(harness))));
}

/** Compares random operations with the model. */
export function simulate(harness, seed, cases, isFaulty) {
  return task(() => runSimulate(bridged(harness), seed, cases, isFaulty));
}

/** Random requests from a seed with their answers, and what they leave behind. */
export function converse(harness, seed) {
  return task(() => runConverse(bridged(harness), seed));
}

/** Fills an empty store with what the HTTP suite of the server asks for; the options are in JSON. */
export async function seed(store, options) {
  return JSON.parse(await task(() => runSeed(new StoreBridge(store), options)));
}

/** Panics inside the module. */
export function panic(message) {
  return task(() => runPanic(message));
}
