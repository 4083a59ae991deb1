// Tests of the package as published on npm: files, types, README.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const ROOT = resolve(import.meta.dirname, "..");
const PKG = join(ROOT, "pkg");
const run = promisify(execFile);

/** Creates a directory with the package in its `node_modules`. */
function application(t) {
  const directory = mkdtempSync(join(tmpdir(), "knowledge-package-"));
  t.after(() => rmSync(directory, { recursive: true }));
  mkdirSync(join(directory, "node_modules"));
  symlinkSync(PKG, join(directory, "node_modules/knowledge-wasm"));
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  return directory;
}

test("npm packs all files of the exports and no others", async () => {
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json"], { cwd: PKG });
  const [{ files, name, version }] = [JSON.parse(stdout)].flat().flatMap((one) => (one.files ? [one] : Object.values(one)));
  const packed = files.map(({ path }) => path).sort();
  const { exports } = JSON.parse(readFileSync(join(PKG, "package.json")));
  const named = Object.values(exports).flatMap((entry) =>
    typeof entry === "string" ? [entry] : Object.values(entry),
  );
  for (const path of named) assert.ok(packed.includes(path.replace("./", "")), `${path} is packed`);
  for (const path of packed) {
    if (/^console(\.html|\/[a-z/-]+\.(css|js|svg)|\/vendor\/lit-html\/LICENSE)$/.test(path)) continue;
    assert.match(path, /^(LICENSE|README\.md|package\.json|knowledge_bg\.wasm|(stores\/)?[a-z-]+(\.d\.ts|\.js))$/);
    // Every file of types belongs to a module, except that of the interface of stores.
    if (path.endsWith(".d.ts") && !/store\.d\.ts$/.test(path)) assert.ok(existsSync(join(PKG, path.replace(".d.ts", ".js"))));
  }
  assert.equal(name, "knowledge-wasm");
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.notEqual(version, "0.0.0");
});

test("the module contains no path of the build machine", () => {
  const module = readFileSync(join(PKG, "knowledge_bg.wasm"));
  const cargo = process.env.CARGO_HOME ?? join(homedir(), ".cargo");
  for (const path of [resolve(ROOT, ".."), homedir(), cargo]) assert.ok(!module.includes(join(path, "/")), path);
  assert.ok(module.includes("/crates/"), "it contains the source locations of panics");
});

test("an application compiles against the types", async (t) => {
  const directory = application(t);
  writeFileSync(join(directory, "consumer.ts"), readFileSync(join(ROOT, "tests/support/consumer.ts")));
  const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"];
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  await run(tsc, [...options, "--types", "", "consumer.ts"], { cwd: directory }).catch(({ stdout }) => assert.fail(stdout));
});

test("KnowledgeErrorCode has every error code of the API", () => {
  const types = readFileSync(join(PKG, "error.d.ts"), "utf8");
  const refusals = readFileSync(join(PKG, "operations.d.ts"), "utf8").matchAll(/^ {2}error: "(\w+)";$/gm);
  const codes = new Set(Array.from(refusals, ([, code]) => code));
  assert.ok(codes.size >= 15, [...codes].join());
  for (const code of codes) assert.ok(types.includes(`\n  | "${code}"`), code);
});

test("initialise sets the only source of the module", async (t) => {
  const directory = application(t);
  // As in a browser after bundling: without the module's file beside the script.
  const program = `
    import { readFile } from "node:fs/promises";
    import { KnowledgeService, initialise } from "knowledge-wasm/custom";
    import { MemoryStore } from "knowledge-wasm/stores/memory";

    const open = () => KnowledgeService.open(new MemoryStore(), { sealingKey: new Uint8Array(32) });
    console.log(await open().catch(({ name }) => name));
    console.log(await initialise(Promise.reject(new Error("not there"))).catch(({ message }) => message));
    const bytes = await readFile(new URL(import.meta.resolve("knowledge-wasm/knowledge_bg.wasm")));
    await initialise(process.argv[2] === "compiled" ? new WebAssembly.Module(bytes) : Promise.resolve(bytes));
    await (await open()).ready();
    console.log("ready");
  `;
  writeFileSync(join(directory, "program.mjs"), program);
  for (const source of ["compiled", "bytes"]) {
    const { stdout } = await run(process.execPath, ["program.mjs", source], { cwd: directory });
    assert.equal(stdout, "TypeError\nnot there\nready\n", source);
  }
});

test("nothing of fetch is loaded before it is called", async (t) => {
  const directory = application(t);
  // Node.js loads all of it when one of its classes is first named, which takes 20 ms.
  const program = `
    const named = [];
    for (const name of ["Headers", "Request", "Response"]) {
      const { value, get } = Object.getOwnPropertyDescriptor(globalThis, name);
      Object.defineProperty(globalThis, name, { get: () => (named.push(name), value ?? get()) });
    }
    const { KnowledgeService } = await import("knowledge-wasm");
    const { MemoryStore } = await import("knowledge-wasm/stores/memory");
    const service = await KnowledgeService.open(new MemoryStore(), { sealingKey: new Uint8Array(32) });
    await service.provision.createOrganization({ slug: "acme", name: "Acme", owner: { handle: "maya", name: "Maya" } });
    console.log(named.length);
    await service.fetch(new Request("https://knowledge.example/v1/sources"));
    console.log([...new Set(named)].sort().join());
  `;
  writeFileSync(join(directory, "program.mjs"), program);
  const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: directory });
  assert.equal(stdout, "0\nRequest,Response\n");
});

test("the README's example runs", async (t) => {
  const directory = application(t);
  const readme = readFileSync(join(PKG, "README.md"), "utf8");
  const [, example] = readme.match(/```js\n([^]*?)```/);
  const shown = `${example}\nconsole.log(response.status, summary.workspace.slug);\n`;
  writeFileSync(join(directory, "example.mjs"), shown);
  const { stdout } = await run(process.execPath, ["example.mjs"], { cwd: directory });
  assert.equal(stdout, "200 product\n");
});
