// The examples that are servers, each with its own directory; a killed one can be restarted.

import assert from "node:assert/strict";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

import { ENVIRONMENT, asking } from "./deployed.mjs";
import { DENO, Scratch } from "./process.mjs";
import { serve } from "./workerd.mjs";

const ROOT = resolve(import.meta.dirname, "../..");

class Example {
  #running;

  constructor(t) {
    this.scratch = new Scratch(t);
    this.ask = asking(() => this.url);
  }

  /** The base URL. */
  get url() {
    return this.#running.url;
  }

  async start() {
    this.#running = await this.run();
  }

  kill() {
    return this.#running.kill();
  }
}

/** The worker example, in workerd: a copy without stored data, beside the package. */
export class WorkerExample extends Example {
  constructor(t) {
    super(t);
    this.directory = this.scratch.file("examples/worker");
    this.file = join(this.directory, "config.capnp");
    const source = join(ROOT, "examples/worker");
    const isData = (path) => relative(source, path).startsWith("storage/") && !path.endsWith(".gitignore");
    cpSync(source, this.directory, { recursive: true, filter: (path) => !isData(path) });
    for (const name of ["pkg", "node_modules"]) symlinkSync(join(ROOT, name), this.scratch.file(name));
  }

  get configuration() {
    return readFileSync(this.file, "utf8");
  }

  /** Replaces a part of the configuration, for a test. */
  configure(part, replacement) {
    const { configuration } = this;
    assert.ok(configuration.includes(part), part);
    writeFileSync(this.file, configuration.replace(part, () => replacement));
  }

  run() {
    return serve(this.scratch, this.file, { options: ["--socket-addr=http=127.0.0.1:0"], env: ENVIRONMENT });
  }
}

/** The Deno example, with the command of its task and its own database. */
export class DenoExample extends Example {
  async run() {
    const directory = join(ROOT, "examples/deno");
    const { tasks } = JSON.parse(readFileSync(join(directory, "deno.json"), "utf8"));
    const [deno, ...options] = tasks.start.command.split(" ");
    assert.equal(deno, "deno");
    const running = this.scratch.start(DENO, options, {
      cwd: directory,
      env: { ...process.env, ...ENVIRONMENT, DATABASE: this.scratch.file("knowledge.db"), PORT: "0" },
    });
    return { url: await running.line((line) => line), kill: () => running.kill() };
  }
}

/** Starts an example, and returns it. */
export async function started(example) {
  await example.start();
  return example;
}
