// Runs workerd, the runtime of Cloudflare's Workers, with a directory of modules and a Durable Object.

import { spawn } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline";

const WORKERD = resolve(import.meta.dirname, "../../node_modules/.bin/workerd");
const COMPATIBILITY_DATE = "2026-01-01";

const quoted = (text) => JSON.stringify(text);

function moduleEntry(name, path) {
  const kind = name.endsWith(".wasm") ? "wasm" : "esModule";
  return `(name = ${quoted(name)}, ${kind} = embed ${quoted(path)})`;
}

/** The configuration: `main` first, then what it may import by the names of the package. */
function configuration({ main, directory, className, storage, scratch }) {
  // Absolute paths are searched for among its own files: relative ones are from the configuration.
  const entry = (name, path) => moduleEntry(name, relative(scratch, resolve(path)));
  const names = readdirSync(directory, { recursive: true }).filter(
    (name) => /\.(js|wasm)$/.test(name) && !/^node\.js$|sqlite/.test(name),
  );
  const modules = [
    entry("main.js", main),
    ...names.map((name) => entry(name, join(directory, name))),
  ];
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "storage", disk = (path = ${quoted(storage)}, writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [${modules.join(", ")}],
  compatibilityDate = ${quoted(COMPATIBILITY_DATE)},
  durableObjectNamespaces = [(className = ${quoted(className)}, uniqueKey = "trial", enableSql = true)],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [(name = "TRIAL", durableObjectNamespace = ${quoted(className)})],
);
`;
}

/** Starts workerd, and gives its address once it listens. `options.scratch` is a directory for its configuration. */
export function startWorkerd(options) {
  const file = join(options.scratch, "config.capnp");
  writeFileSync(file, configuration(options));
  return serve(file);
}

/** Serves a configuration. */
export async function serve(file, { options = [], env = {} } = {}) {
  const child = spawn(WORKERD, ["serve", file, "--control-fd=3", ...options], {
    cwd: dirname(file),
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdio[3] });
  const port = await new Promise((resolve, reject) => {
    lines.on("line", (line) => {
      const event = JSON.parse(line);
      if (event.event === "listen") resolve(event.port);
    });
    ended.then((code) => reject(new Error(`workerd ended with ${code}`)));
  });
  return {
    url: `http://127.0.0.1:${port}`,
    /** Ends it as a crash does: it has nothing to say goodbye to. */
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
