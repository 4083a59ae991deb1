// The WebAssembly module: loaded once, and watched. Whatever crosses the boundary crosses it here.

import initialise, { attach, initSync, open as openService, poll } from "./knowledge.js";
import { KnowledgeError } from "./error.js";

/** The promises of tasks that are under way, by their numbers. */
const tasks = new Map();
/** The tasks that were woken and have not had their turn. */
const woken = new Set();
/** The task that is in the middle of a step. */
let stepping;
/** Why the module can be called no more. */
let stopped;
let panicMessage;

const host = {
  wake(task) {
    if (woken.has(task)) return;
    woken.add(task);
    // One that wakes itself gives way to others, and to what the host waits for: microtasks alone would not let it in.
    if (task === stepping) setTimeout(step, 0, task);
    else queueMicrotask(() => step(task));
  },
  settle(task, isFulfilled, value) {
    const { resolve, reject } = tasks.get(task);
    tasks.delete(task);
    if (isFulfilled) resolve(value);
    else reject(new KnowledgeError(JSON.parse(value)));
  },
  sleep(millis) {
    return new Promise((resolve) => setTimeout(resolve, millis));
  },
  log(level, message) {
    console[level](`knowledge: ${message}`);
  },
  panicked(message) {
    panicMessage = message;
  },
};

/**
 * Calls the module. Code that has trapped half way has left its memory in no state to go on with: everything that
 * waits for it is rejected, and so is whatever comes after.
 */
export function call(callee) {
  if (stopped) throw stopped;
  try {
    return callee();
  } catch (cause) {
    stopped = new KnowledgeError(
      {
        code: "internal",
        message: `a defect stopped the module, which has to be loaded again: ${panicMessage ?? cause.message}`,
      },
      { cause },
    );
    for (const { reject } of tasks.values()) reject(stopped);
    tasks.clear();
    throw stopped;
  }
}

function step(task) {
  woken.delete(task);
  if (stopped) return;
  stepping = task;
  try {
    call(() => poll(task));
  } catch {
    // Whoever waits for it has been told.
  } finally {
    stepping = undefined;
  }
}

/** What the task that `begin` gives the number of comes to. */
export function run(begin) {
  return new Promise((resolve, reject) => {
    const task = call(begin);
    tasks.set(task, { resolve, reject });
    step(task);
  });
}

let source;
let loading;
let isLoaded = false;

/**
 * Says what the module is loaded from when it is needed: bytes, a compiled module, an address, a response, or a promise
 * of one of them. The entry points of the package do.
 */
export function setSource(from) {
  source = from;
}

async function load(from) {
  await initialise({ module_or_path: await from });
  connect();
}

function connect() {
  attach(host);
  isLoaded = true;
}

/** Loads the module, once: again only after it could not be loaded. */
export async function loaded() {
  if (isLoaded) return;
  const from = loading ? undefined : source();
  if (from instanceof WebAssembly.Module) {
    // At once: workerd lets no request wait for what another one began.
    initSync({ module: from });
    connect();
    return;
  }
  loading ??= load(from).catch((error) => {
    loading = undefined;
    throw error;
  });
  await loading;
}

export async function open(store, options) {
  await loaded();
  return run(() => openService(store, options));
}
