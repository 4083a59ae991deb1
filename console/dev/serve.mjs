// Serves the console during its development, as it is on disk, and forwards everything else to a
// server; or serves the npm package, whose console runs the service inside the page:
// node dev/serve.mjs --api URL [--port PORT]
// node dev/serve.mjs --package DIR [--port PORT]

import { readFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const PAGE = fileURLToPath(new URL("../page/", import.meta.url));
/** @type {Record<string, string>} */
const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".wasm": "application/wasm",
};
/** The policy of the server for its page; the service inside a page needs WebAssembly, too. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
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
    const path = packageDirectory === undefined ? pathInPage(pathname) : pathInPackage(packageDirectory, pathname);
    const content = path === null ? null : await readFile(path).catch(() => null);
    if (path !== null && content !== null) {
      outgoing.setHeader("content-type", TYPES[extname(path)] ?? "application/octet-stream");
      outgoing.setHeader("content-security-policy", POLICY);
      outgoing.setHeader("cache-control", "no-cache");
      outgoing.end(content);
    } else if (api !== undefined) {
      forward(new URL(incoming.url ?? "/", api), incoming, outgoing);
    } else {
      outgoing.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(null)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${address.port}/`, close: () => server.close() };
}

/** @param {string} pathname */
function pathInPage(pathname) {
  if (pathname === "/") return join(PAGE, "index.html");
  return pathname.startsWith("/console/") ? join(PAGE, normalize(pathname.slice("/console".length))) : null;
}

/**
 * @param {string} directory
 * @param {string} pathname
 */
const pathInPackage = (directory, pathname) => join(directory, pathname === "/" ? "console.html" : normalize(pathname));

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
