// The WebAssembly module: loaded once, watched, and started anew after a defect. Whatever crosses the boundary crosses it
// here.

import initialise, { __wbg_reset_state as startAnew, attach, initSync, open as openService, poll } from "./knowledge.js";
import { KnowledgeError } from "./error.js";

/** Whether what came out of the module says that its code did not come to its end. Engines name an exhausted stack each in its way. */
function isTrap(cause) {
  return cause instanceof WebAssembly.RuntimeError || cause instanceof RangeError || cause?.name === "InternalError";
}

/** An instance of the module, with what waits for it. */
class Instance {
  /** Why it can be called no more. */
  stopped;
  /** The promises of tasks that are under way, by their numbers. */
  #tasks = new Map();
  /** The tasks that were woken and have not had their turn. */
  #woken = new Set();
  /** The task that is in the middle of a step. */
  #stepping;
  #panicMessage;

  constructor() {
    attach({
      wake: (task) => this.#wake(task),
      settle: (task, isFulfilled, value) => this.#settle(task, isFulfilled, value),
      sleep: (millis) => held(new Promise((resolve) => setTimeout(resolve, millis))),
      log,
      panicked: (message) => {
        this.#panicMessage = message;
      },
    });
  }

  /**
   * Calls the module, with arguments that were read and converted before: one that cannot be is its caller's mistake. Code
   * that has trapped half way has left its memory in no state to go on with.
   */
  call(callee) {
    if (this.stopped) throw this.stopped;
    try {
      return callee();
    } catch (cause) {
      if (this.#panicMessage === undefined && !isTrap(cause)) throw cause;
      this.#stop(cause);
      throw this.stopped;
    }
  }

  /** What the task that `begin` gives the number of comes to. */
  run(begin) {
    return new Promise((resolve, reject) => {
      const task = this.call(begin);
      this.#tasks.set(task, { resolve, reject });
      this.#step(task);
    });
  }

  #step(task) {
    this.#woken.delete(task);
    if (this.stopped) return;
    const outer = this.#stepping;
    this.#stepping = task;
    try {
      poll(task);
    } catch (cause) {
      // There is no argument to be wrong about.
      this.#stop(cause);
    } finally {
      this.#stepping = outer;
    }
  }

  #wake(task) {
    if (this.#woken.has(task)) return;
    this.#woken.add(task);
    // One that wakes itself gives way to others, and to what the host waits for: microtasks alone would not let it in.
    if (task === this.#stepping) setTimeout(() => this.#step(task));
    else queueMicrotask(() => this.#step(task));
  }

  #settle(task, isFulfilled, value) {
    const waiting = this.#tasks.get(task);
    this.#tasks.delete(task);
    if (isFulfilled) waiting?.resolve(value);
    else waiting?.reject(new KnowledgeError(JSON.parse(value)));
  }

  /** Everything that waits is rejected, and so is whatever comes after. */
  #stop(cause) {
    if (this.stopped) return;
    const message = `a defect stopped the module: ${this.#panicMessage ?? cause?.message}`;
    this.stopped = new KnowledgeError({ code: "internal", message }, { cause });
    log("error", message);
    for (const { reject } of this.#tasks.values()) reject(this.stopped);
    this.#tasks.clear();
  }
}

function log(level, message) {
  console[level](`knowledge: ${message}`);
}

let source = () => {
  throw new TypeError("the module has no source: call initialise(source) before a service is opened");
};
let loading;
/** The instance that is called: there is one at a time. */
let current;

/**
 * Says what the module is loaded from when it is needed: bytes, a compiled module, an address, a response, or a promise
 * of one of them. The entry points of the package do.
 */
export function setSource(from) {
  source = from;
}

async function load(from) {
  await initialise({ module_or_path: await from });
  current ??= new Instance();
}

/** Loads the module, once: again only after it could not be loaded. Where a defect stopped it, it starts anew. */
export async function loaded() {
  if (!current) {
    const from = loading ? undefined : source();
    if (from instanceof WebAssembly.Module) {
      // At once: workerd lets no request wait for what another one began.
      initSync({ module: from });
      current = new Instance();
    } else {
      loading ??= load(from).catch((error) => {
        loading = undefined;
        throw error;
      });
      await loading;
    }
  }
  if (current.stopped) {
    // Not from inside a call of the instance that stopped: what is left of it would go on in the new one's memory.
    await undefined;
    if (current.stopped) {
      startAnew();
      current = new Instance();
    }
  }
  return current;
}

/** The same promise for the module to wait for: it does not come back to an instance that has stopped meanwhile. */
export function held(promise) {
  const instance = current;
  const unlessStopped = (settle) => (value) => {
    if (!instance.stopped) settle(value);
  };
  return new Promise((resolve, reject) => {
    promise.then(unlessStopped(resolve), unlessStopped(reject));
  });
}

/** Runs a task of the instance that is called. */
export function run(begin) {
  return current.run(begin);
}

/** A service over a store behind its bridge, and the instance that it is part of. */
export async function open(store, options) {
  const instance = await loaded();
  return { instance, service: await instance.run(() => openService(store, options)) };
}
