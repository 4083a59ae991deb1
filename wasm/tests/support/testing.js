// Exports of the testing module, as promises. This file is copied beside the package's modules.

import { StoreBridge } from "./bridge.js";
import {
  checkNonInterference as runCheckNonInterference,
  conformance as runConformance,
  converse as runConverse,
  panic as runPanic,
  seed as runSeed,
  simulate as runSimulate,
} from "./knowledge.js";
import { loaded, run } from "./module.js";

/** Wraps the stores of a harness in bridges, for Rust. */
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

/** Runs the conformance suite; returns its report. */
export async function conformance(harness) {
  return JSON.parse(await task(() => runConformance(bridged(harness))));
}

/** Compares random operations with the model. */
export function simulate(harness, seed, cases, isFaulty) {
  return task(() => runSimulate(bridged(harness), seed, cases, isFaulty));
}

/** Checks that hidden things change no response. */
export function checkNonInterference(harness, seed, cases) {
  return task(() => runCheckNonInterference(bridged(harness), seed, cases));
}

/** Runs random requests from a seed; returns requests, responses and final state. */
export function converse(harness, seed) {
  return task(() => runConverse(bridged(harness), seed));
}

/** Seeds an empty store for the server's HTTP suite, with options in JSON; returns the fixture. */
export async function seed(store, options) {
  return JSON.parse(await task(() => runSeed(new StoreBridge(store), options)));
}

/** Panics inside the module. */
export function panic(message) {
  return task(() => runPanic(message));
}
