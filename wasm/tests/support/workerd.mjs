// Runs workerd, the runtime of Cloudflare's Workers, with a directory of modules and a Durable Object.

import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { WORKERD } from "./process.mjs";

const COMPATIBILITY_DATE = "2026-01-01";

const quoted = (text) => JSON.stringify(text);

function moduleEntry(name, path) {
  const kind = name.endsWith(".wasm") ? "wasm" : "esModule";
  return `(name = ${quoted(name)}, ${kind} = embed ${quoted(path)})`;
}

/** The configuration: `main` first, then what it may import by the names of the package. */
function configuration(scratch, { main, directory, className }) {
  // Absolute paths are searched for among its own files: relative ones are from the configuration.
  const entry = (name, path) => moduleEntry(name, relative(scratch.path, resolve(path)));
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
    (name = "storage", disk = (path = ${quoted(scratch.directory("storage"))}, writable = true)),
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

/** Starts workerd with a directory of modules, and gives its address once it listens. */
export function startWorkerd(scratch, options) {
  const file = scratch.file("config.capnp");
  writeFileSync(file, configuration(scratch, options));
  return serve(scratch, file);
}

/** The port in a line of what workerd tells whoever controls it. */
export function listening(line) {
  const { event, port } = JSON.parse(line);
  return event === "listen" ? port : undefined;
}

/** Serves a configuration. */
export async function serve(scratch, file, { options = [], env = {} } = {}) {
  const workerd = scratch.start(WORKERD, ["serve", file, "--control-fd=3", ...options], {
    cwd: dirname(file),
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  const port = await workerd.told(listening, { stream: 3 });
  return { url: `http://127.0.0.1:${port}`, kill: () => workerd.kill() };
}
