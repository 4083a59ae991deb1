// Tests that the commands in the README of the examples run as written.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";

import { ENVIRONMENT } from "./support/deployed.mjs";
import { DenoExample, WorkerExample, started } from "./support/examples.mjs";
import { Scratch } from "./support/process.mjs";
import { listening } from "./support/workerd.mjs";

const ROOT = resolve(import.meta.dirname, "..");
const EXAMPLES = readFileSync(join(ROOT, "examples/README.md"), "utf8");
const GUIDE = readFileSync(resolve(ROOT, "../docs/guide.md"), "utf8");

/** Returns the commands of a chapter. */
function commands(readme, title) {
  const [, chapter] = readme.split(`\n## ${title}\n`);
  assert.ok(chapter, title);
  const [text] = chapter.split("\n## ");
  const blocks = [...text.matchAll(/```sh\n([^]*?)```/g)].map(([, block]) => block);
  assert.ok(blocks.length > 0, title);
  return blocks.join("");
}

/** Runs a shell script to its end; returns its output. */
async function run(scratch, script, env = {}) {
  const shell = scratch.start("sh", ["-euc", script], { cwd: scratch.path, env: { ...process.env, ...env } });
  let output = "";
  shell.stdout.on("data", (data) => (output += data));
  assert.equal(await shell.ended, 0, output);
  return output;
}

/** Adds arguments to a command after a `cd`, and `exec`, so that it ends with the shell. */
function withArguments(command, more) {
  assert.ok(command.includes(" && "), command);
  return command.trim().replace(" && ", " && exec ") + more;
}

test("the README's commands create valid secrets", async (t) => {
  const script = `${commands(EXAMPLES, "Secrets")}printenv SEALING_KEY OPERATOR_TOKEN`;
  const [key, token] = (await run(new Scratch(t), script)).split("\n");
  assert.equal(Buffer.from(key, "base64").length, 32);
  assert.equal(token.length, 64);
});

test("the README's command starts the worker", async (t) => {
  const { scratch } = new WorkerExample(t);
  const script = withArguments(commands(EXAMPLES, "Worker"), " --socket-addr=http=127.0.0.1:0 --control-fd=3");
  const workerd = scratch.start("sh", ["-euc", script], {
    cwd: scratch.path,
    env: { ...process.env, ...ENVIRONMENT },
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  const port = await workerd.line(listening, { stream: 3 });
  const response = await fetch(`http://127.0.0.1:${port}/v1/workspaces`);
  assert.equal(response.status, 401);
  assert.equal((await response.json()).error, "unauthenticated");
});

test("deno.json has the README's task", async (t) => {
  // Other tests run its command: a task is a second process, which cannot be killed with the first.
  const command = commands(EXAMPLES, "Deno").replace(/start\s*$/, "");
  const listed = await run(new Scratch(t), `cd ${ROOT}\n${command} 2>&1`, { NO_COLOR: "1" });
  assert.match(listed, /^- start$/m);
});

for (const [name, Example] of [["worker", WorkerExample], ["Deno", DenoExample]]) {
  test(`the README's commands prepare the guide's first requests, ${name}`, async (t) => {
    const example = await started(new Example(t));
    const setUp = commands(EXAMPLES, "Operator API").replace("http://127.0.0.1:8787", example.url);
    const operations = commands(GUIDE, "First requests").replaceAll(/^curl /gm, "curl --silent --show-error --fail-with-body ");
    assert.equal(operations.match(/^curl /gm).length, 8);
    const output = await run(example.scratch, setUp + operations, ENVIRONMENT);
    assert.match(output, /"summary":\{"requested":2,"succeeded":1,"failed":1\}/);
  });
}

test("the README's server sends valid content types", async (t) => {
  const scratch = new Scratch(t);
  const [, ...words] = commands(EXAMPLES, "Browser").trim().replace("8000", "0").split(" ");
  const server = scratch.start("python3", ["-u", ...words], { cwd: ROOT, stdio: ["ignore", "pipe", "ignore"] });
  const port = await server.line((line) => /port (\d+)/.exec(line)?.[1]);
  const [, address] = /<(http:\/\/127\.0\.0\.1:8000[^>]*)>/.exec(EXAMPLES);
  const page = new URL(address.replace("8000", port));
  const expected = { "": "text/html", "app.js": "javascript", "style.css": "text/css", "../../pkg/knowledge_bg.wasm": "application/wasm" };
  for (const [path, type] of Object.entries(expected)) {
    const response = await fetch(new URL(path, page));
    assert.equal(response.status, 200);
    assert.ok(response.headers.get("content-type").includes(type), path);
    await response.arrayBuffer();
  }
});

test("the README's links resolve", () => {
  const links = [...EXAMPLES.matchAll(/\]\(([^)#]+)/g)].map(([, link]) => link);
  assert.ok(links.length > 0);
  for (const link of links) assert.ok(existsSync(join(ROOT, "examples", link)), link);
});
