// The processes of a test, and the directory that they work in.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const MODULES = resolve(import.meta.dirname, "../../node_modules");
const OWN_NODE = join(MODULES, ".bin/node");

// The programs themselves: what npm links may be a script that starts one, and outlives a signal or is outlived.
export const DENO = join(MODULES, "deno/deno");
export const WORKERD = join(MODULES, "workerd/bin/workerd");
export const WRANGLER = join(MODULES, "wrangler/bin/wrangler.js");
/** A newer Node.js than the one that runs this may be: `node:sqlite` and wrangler need it. */
export const NODE = existsSync(OWN_NODE) ? OWN_NODE : process.execPath;
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Long enough for a busy machine: a process that says nothing for so long will not. */
const ANSWER_MS_MAX = 120_000;

/** A process that has been started. */
class Running {
  #child;

  constructor(program, args, options) {
    this.#child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
    /** Settles when it has ended: its status, or the signal that ended it. */
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => resolve(error.message));
      this.#child.once("close", (code, signal) => resolve(code ?? signal));
    });
  }

  /** What it writes to its standard output. */
  get stdout() {
    return this.#child.stdout;
  }

  /** Reads the lines of a stream until one means something: what `read` gives for it. Call it right after the start. */
  async told(read, { stream = 1 } = {}) {
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
        timer = setTimeout(() => refuse("does not say what is waited for"), ANSWER_MS_MAX);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends it as a crash does: it has nothing to say goodbye to. */
  async kill() {
    this.#child.kill("SIGKILL");
    await this.ended;
  }
}

/** A directory of a test, and the processes that work in it. They end with the test, and the directory goes after them. */
export class Scratch {
  #running = new Set();
  #isOver = false;

  constructor(t) {
    this.path = mkdtempSync(join(tmpdir(), "knowledge-"));
    t.after(() => this.#end());
  }

  /** A path in the directory. */
  file(name) {
    return join(this.path, name);
  }

  /** Makes a directory in the directory. */
  directory(name) {
    const path = this.file(name);
    mkdirSync(path);
    return path;
  }

  /** Starts a process, with the options of `spawn`. */
  start(program, args, options) {
    // What a failed test still had in mind would otherwise outlive it.
    if (this.#isOver) throw new Error(`the test is over: ${program} is not started`);
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
