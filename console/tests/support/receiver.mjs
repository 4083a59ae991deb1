// A receiver of webhooks, which answers as a test wants.

import { createServer } from "node:http";

/** Starts a receiver. */
export async function startReceiver() {
  const state = { status: 204 };
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(state.status).end());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}/events`, state, stop: () => server.close() };
}
