// Starts workerd, the runtime of Cloudflare Workers, with a directory of modules and a Durable
// Object.

import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { WORKERD } from "./process.mjs";

const COMPATIBILITY_DATE = "2026-01-01";

const quoted = (text) => JSON.stringify(text);

function moduleEntry(name, path) {
  const kind = name.endsWith(".wasm") ? "wasm" : "esModule";
  return `(name = ${quoted(name)}, ${kind} = embed ${quoted(path)})`;
}

/** Returns the configuration: `main` first, then the modules that it can import. */
function configuration(scratch, { main, directory, className }) {
  // Paths must be relative to the configuration; workerd looks up absolute ones in its own files.
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

/** Starts workerd with a directory of modules; returns its URL once it listens. */
export function startWorkerd(scratch, options) {
  const file = scratch.file("config.capnp");
  writeFileSync(file, configuration(scratch, options));
  return serve(scratch, file);
}

/** Returns the port in a line of workerd's control output. */
export function listening(line) {
  const { event, port } = JSON.parse(line);
  return event === "listen" ? port : undefined;
}

/** Starts workerd with a configuration. */
export async function serve(scratch, file, { options = [], env = {} } = {}) {
  const workerd = scratch.start(WORKERD, ["serve", file, "--control-fd=3", ...options], {
    cwd: dirname(file),
    env: { ...process.env, ...env },
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  const port = await workerd.line(listening, { stream: 3 });
  return { url: `http://127.0.0.1:${port}`, kill: () => workerd.kill() };
}
