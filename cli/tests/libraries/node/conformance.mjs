// The conformance suite of the Model Context Protocol against an endpoint.
//
// Reads one line of JSON: `url`, `token` and `scenarios`, pairs of a scenario and a version. Prints
// for each the checks that did not succeed, and how many did. The suite sends no token, so it talks
// to a proxy that adds one.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const packages = join(process.env.TEST_NODE_PACKAGES, "node_modules");
const node = join(packages, "node/bin/node");
const suite = join(packages, "@modelcontextprotocol/conformance/dist/index.js");

const line = await new Promise((resolve) => {
  createInterface({ input: process.stdin }).once("line", resolve);
});
const { url, token, scenarios } = JSON.parse(line);
const { hostname, port } = new URL(url);

const proxy = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const { method, url: path } = request;
  const passed = http.request({ hostname, port, path, method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  request.pipe(passed);
});
await new Promise((resolve) => proxy.listen(0, "localhost", resolve));
const endpoint = `http://localhost:${proxy.address().port}/mcp`;

for (const [scenario, version] of scenarios) {
  const results = mkdtempSync(join(tmpdir(), "conformance-"));
  const options = ["--url", endpoint, "--scenario", scenario, "--spec-version", version];
  const run = spawn(node, [suite, "server", ...options, "--force", "--output-dir", results]);
  run.stdout.resume();
  run.stderr.resume();
  await new Promise((resolve) => run.once("exit", resolve));
  const [directory] = readdirSync(results);
  const checks = JSON.parse(readFileSync(join(results, directory, "checks.json"), "utf8"));
  rmSync(results, { recursive: true });
  const succeeded = checks.filter((check) => check.status === "SUCCESS").length;
  const missed = checks.filter((check) => ["FAILURE", "WARNING"].includes(check.status));
  const failed = missed.map(({ id, errorMessage }) => ({ id, error: errorMessage }));
  console.log(JSON.stringify({ scenario, version, succeeded, failed }));
}
process.exit(0);
