// Processes of a test, and their directory.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const MODULES = resolve(import.meta.dirname, "../../node_modules");
const OWN_NODE = join(MODULES, ".bin/node");

// The programs themselves, because npm may link to a script that starts a second process, which a
// signal does not reach.
export const DENO = join(MODULES, "deno/deno");
export const WORKERD = join(MODULES, "workerd/bin/workerd");
export const WRANGLER = join(MODULES, "wrangler/bin/wrangler.js");
/** A Node.js that is new enough for `node:sqlite` and wrangler. */
export const NODE = existsSync(OWN_NODE) ? OWN_NODE : process.execPath;
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Maximum time until an expected line, sufficient for a busy machine. */
const ANSWER_MS_MAX = 120_000;

/** A started process. */
class Running {
  #child;

  constructor(program, args, options) {
    this.#child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
    /** A promise of the exit status, or of the signal that ended the process. */
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => resolve(error.message));
      this.#child.once("close", (code, signal) => resolve(code ?? signal));
    });
  }

  /** The standard output. */
  get stdout() {
    return this.#child.stdout;
  }

  /**
   * Reads the lines of a stream until `read` returns a value for one, and returns that. Call it
   * immediately after the start.
   */
  async line(read, { stream = 1 } = {}) {
    const lines = createInterface({ input: this.#child.stdio[stream] });
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        lines.on("line", (line) => {
          const meaning = read(line);
          if (meaning !== undefined) resolve(meaning);
        });
        const refuse = (why) => reject(new Error(`${this.#child.spawnfile} ${why}`));
        this.ended.then((status) => refuse(`ended with ${status}`));
        timer = setTimeout(() => refuse("did not print the expected line"), ANSWER_MS_MAX);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Kills the process, as a crash would. */
  async kill() {
    this.#child.kill("SIGKILL");
    await this.ended;
  }
}

/** A directory of a test and its processes, which end with the test before it is deleted. */
export class Scratch {
  #running = new Set();
  #isOver = false;

  constructor(t) {
    this.path = mkdtempSync(join(tmpdir(), "knowledge-"));
    t.after(() => this.#end());
  }

  /** Returns a path in the directory. */
  file(name) {
    return join(this.path, name);
  }

  /** Creates a subdirectory. */
  directory(name) {
    const path = this.file(name);
    mkdirSync(path);
    return path;
  }

  /** Starts a process, with the options of `spawn`. */
  start(program, args, options) {
    // A failed test may still continue, and its processes would outlive it.
    if (this.#isOver) throw new Error(`cannot start ${program}: the test is over`);
    const running = new Running(program, args, options);
    this.#running.add(running);
    running.ended.then(() => this.#running.delete(running));
    return running;
  }

  async #end() {
    this.#isOver = true;
    await Promise.all([...this.#running].map((running) => running.kill()));
    rmSync(this.path, { recursive: true, force: true });
  }
}
