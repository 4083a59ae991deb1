// A real server with the data of the demo, and links for its members.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SERVER =
  process.env.KNOWLEDGE_SERVER ?? fileURLToPath(new URL("../../../target/release/knowledge", import.meta.url));
/** Workspace of the demo in which the tests work. */
export const WORKSPACE = "operations";

/** Owner of the organisation. */
const OWNER = "maya.okafor";

/**
 * Starts a demo in a new directory.
 * @param {number} [memories] Number of memories.
 */
export async function startDemo(memories = 300) {
  const directory = mkdtempSync(join(tmpdir(), "console-"));
  const data = join(directory, "data");
  const options = ["--data-dir", data, "--listen", "127.0.0.1:0", "--memories", String(memories), "--output", "json"];
  const server = spawn(SERVER, ["demo", ...options], { stdio: ["ignore", "pipe", "ignore"] });
  const lines = createInterface({ input: server.stdout });
  const { value: line } = await lines[Symbol.asyncIterator]().next();
  const { base_url, bearer_token, workspace_id } = JSON.parse(line);

  return {
    url: base_url,
    workspace: workspace_id,
    /** Bearer token of an administrator. */
    token: bearer_token,
    /**
     * Makes a link by which a member signs in, once.
     * @param {string} member Handle.
     */
    link: (member = OWNER) =>
      execFileSync(SERVER, ["login-link", "--data-dir", data, "--public-url", base_url, member], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      }).trim(),
    async stop() {
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill();
      await ended;
      rmSync(directory, { recursive: true });
    },
  };
}
