// Serves the console during its development and its tests, and forwards the API to a server:
// node dev/serve.mjs [--api URL] [--port PORT] [--package DIR]
//
// With a directory of the npm package, the page runs the service itself.

import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { readServed, servedPaths } from "./embed.mjs";

const PACKAGE_PATH = "/pkg/";
/** @type {Record<string, string>} */
const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};

/**
 * Returns the policy of the page: everything from its own origin, no inline script and no inline
 * style. The service inside the page needs WebAssembly.
 * @param {boolean} isOffline
 */
const policy = (isOffline) =>
  [
    "default-src 'none'",
    `script-src 'self'${isOffline ? " 'wasm-unsafe-eval'" : ""}`,
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types lit-html",
  ].join("; ");

/**
 * Starts the server.
 * @param {object} options
 * @param {string} [options.api] Base address of the server of the API.
 * @param {string} [options.packageDirectory] Directory of the npm package.
 * @param {number} [options.port]
 * @returns {Promise<{ url: string, close: () => void }>}
 */
export async function serve({ api, packageDirectory, port = 0 }) {
  const server = createServer(async (incoming, outgoing) => {
    const { pathname } = new URL(incoming.url ?? "/", "http://localhost");
    if (api !== undefined && pathname.startsWith("/v1/")) {
      forward(new URL(incoming.url ?? "/", api), incoming, outgoing);
      return;
    }
    const content = await read(pathname, packageDirectory);
    if (content === null) {
      outgoing.writeHead(404).end();
      return;
    }
    const isPage = pathname === "/";
    outgoing.setHeader("content-type", TYPES[isPage ? ".html" : extname(pathname)] ?? "application/octet-stream");
    outgoing.setHeader("content-security-policy", policy(packageDirectory !== undefined));
    outgoing.setHeader("cache-control", "no-cache");
    outgoing.end(isPage && packageDirectory !== undefined ? withPackage(content.toString()) : content);
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(null)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${address.port}/`, close: () => server.close() };
}

/**
 * Reads what is served at a path; `null` if there is nothing.
 * @param {string} pathname
 * @param {string | undefined} packageDirectory
 */
async function read(pathname, packageDirectory) {
  if (packageDirectory !== undefined && pathname.startsWith(PACKAGE_PATH)) {
    return readFile(join(packageDirectory, normalize(`/${pathname.slice(PACKAGE_PATH.length)}`))).catch(() => null);
  }
  const path = pathname === "/" ? "index.html" : pathname.slice(1);
  return servedPaths().includes(path) ? readServed(path) : null;
}

/**
 * Names the package in the page.
 * @param {string} page
 */
const withPackage = (page) =>
  page.replace('name="knowledge-package" content=""', `name="knowledge-package" content="${PACKAGE_PATH}web.js"`);

/**
 * Forwards a request, as it is, and its response.
 * @param {URL} target
 * @param {import("node:http").IncomingMessage} incoming
 * @param {import("node:http").ServerResponse} outgoing
 */
function forward(target, incoming, outgoing) {
  const forwarded = request(target, { method: incoming.method, headers: incoming.headers }, (response) => {
    outgoing.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(outgoing);
  });
  forwarded.on("error", () => outgoing.destroy());
  incoming.pipe(forwarded);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: { api: { type: "string" }, port: { type: "string" }, package: { type: "string" } },
  });
  const { url } = await serve({ api: values.api, packageDirectory: values.package, port: Number(values.port ?? 0) });
  console.log(url);
}
