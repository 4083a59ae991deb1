// The WebAssembly module: loaded once, supervised, and restarted after a crash. Every call into it
// goes through this file.

import initialise, { __wbg_reset_state as startAnew, attach, initSync, open as openService, poll } from "./knowledge.js";
import { KnowledgeError } from "./error.js";

/** Returns true if an error interrupted the module. Engines differ in that of a full stack. */
function isTrap(cause) {
  return cause instanceof WebAssembly.RuntimeError || cause instanceof RangeError || cause?.name === "InternalError";
}

/** An instance of the module, with its tasks. */
class Instance {
  /** The error that stopped the instance, after which it must not be called. */
  stopped;
  /** The promises of running tasks, by task number. */
  #tasks = new Map();
  /** The tasks that are scheduled for a step. */
  #woken = new Set();
  /** The task whose step is running. */
  #stepping;
  #panicMessage;

  constructor() {
    attach({
      wake: (task) => this.#wake(task),
      settle: (task, isFulfilled, value) => this.#settle(task, isFulfilled, value),
      respond: (task, status, lines, body) => this.#respond(task, status, lines, body),
      sleep: (millis) => held(new Promise((resolve) => setTimeout(resolve, millis))),
      log,
      panicked: (message) => {
        this.#panicMessage = message;
      },
    });
  }

  /**
   * Calls the module, with arguments that are already converted, so that a failed conversion does
   * not stop it. A trap leaves its memory inconsistent and stops the instance.
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

  /**
   * Runs a task, whose number `begin` returns, and resolves to its result. A response is read by
   * `read`, from bytes in the module's memory, which it must not keep.
   */
  run(begin, read) {
    return new Promise((resolve, reject) => {
      const task = this.call(begin);
      this.#tasks.set(task, { resolve, reject, read });
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
      // A step has no arguments that could be invalid: every error is a crash.
      this.#stop(cause);
    } finally {
      this.#stepping = outer;
    }
  }

  #wake(task) {
    if (this.#woken.has(task)) return;
    this.#woken.add(task);
    // A task that wakes itself yields to the host's events, which microtasks alone would starve.
    if (task === this.#stepping) setTimeout(() => this.#step(task));
    else queueMicrotask(() => this.#step(task));
  }

  #settle(task, isFulfilled, value) {
    const waiting = this.#tasks.get(task);
    this.#tasks.delete(task);
    if (isFulfilled) waiting?.resolve(value);
    else waiting?.reject(new KnowledgeError(JSON.parse(value)));
  }

  #respond(task, status, lines, body) {
    const waiting = this.#tasks.get(task);
    this.#tasks.delete(task);
    try {
      waiting?.resolve(waiting.read(status, lines, body));
    } catch (error) {
      // An error of the reader must not pass through the module, which it would stop.
      waiting.reject(error);
    }
  }

  /** Stops the instance: rejects its running tasks and all later calls. */
  #stop(cause) {
    if (this.stopped) return;
    const message = `the module crashed: ${this.#panicMessage ?? cause?.message}`;
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
  throw new TypeError("the module has no source; call initialise(source) before a service is opened");
};
let loading;
/** The current instance; there is one at a time. */
let current;

/**
 * Sets the function that returns the source of the module: bytes, a compiled module, an address, a
 * response, or a promise of one of these. Called by the package's entry points.
 */
export function setSource(from) {
  source = from;
}

async function load(from) {
  await initialise({ module_or_path: await from });
  current ??= new Instance();
}

/** Loads the module once, or again if that failed; restarts it after a crash. */
export async function loaded() {
  if (!current) {
    const from = loading ? undefined : source();
    if (from instanceof WebAssembly.Module) {
      // Synchronous: in workerd no request can wait for a promise of another one.
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
    // Not inside a call of the stopped instance, which would continue in the memory of the new one.
    await undefined;
    if (current.stopped) {
      startAnew();
      current = new Instance();
    }
  }
  return current;
}

/** Wraps a promise for the module: once the current instance has stopped, it never settles. */
export function held(promise) {
  const instance = current;
  const unlessStopped = (settle) => (value) => {
    if (!instance.stopped) settle(value);
  };
  return new Promise((resolve, reject) => {
    promise.then(unlessStopped(resolve), unlessStopped(reject));
  });
}

/** Runs a task of the current instance. */
export function run(begin) {
  return current.run(begin);
}

/** Opens a service over the bridge of a store; returns it with its instance. */
export async function open(store, options) {
  const instance = await loaded();
  return { instance, service: await instance.run(() => openService(store, options)) };
}
