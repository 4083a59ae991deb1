// A real server with the data of the demo, and credentials of its members.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SERVER =
  process.env.KNOWLEDGE_SERVER ?? fileURLToPath(new URL("../../../target/release/knowledge", import.meta.url));
const MEMORIES = 300;
/** Workspace of the demo in which the tests work. */
export const WORKSPACE = "operations";

/** @typedef {{ token: string, session: string, organization: string }} Credentials */

/** Starts a demo in a new directory. */
export async function startDemo() {
  const directory = mkdtempSync(join(tmpdir(), "console-"));
  const data = join(directory, "data");
  const options = ["--data-dir", data, "--listen", "127.0.0.1:0", "--memories", String(MEMORIES), "--output", "json"];
  const server = spawn(SERVER, ["demo", ...options], { stdio: ["ignore", "pipe", "ignore"] });
  const lines = createInterface({ input: server.stdout });
  const { value: line } = await lines[Symbol.asyncIterator]().next();
  const { base_url, bearer_token, session_token, org_slug, workspace_id } = JSON.parse(line);

  /**
   * @param {"token" | "session"} kind
   * @param {string} member
   */
  const create = (kind, member) =>
    execFileSync(SERVER, [kind, "create", "--data-dir", data, "--member", member], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();

  return {
    url: base_url,
    workspace: workspace_id,
    /** Credentials of an administrator, with the session of the owner. */
    credentials: { token: bearer_token, session: session_token, organization: org_slug },
    /**
     * Creates credentials of a member.
     * @param {string} member Handle.
     * @returns {Credentials}
     */
    credentialsOf: (member) => ({
      token: create("token", member),
      session: create("session", member),
      organization: org_slug,
    }),
    async stop() {
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill();
      await ended;
      rmSync(directory, { recursive: true });
    },
  };
}
