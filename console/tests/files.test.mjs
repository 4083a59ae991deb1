// Tests of the files of the page, as a server serves them.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { openPage, settled, signIn } from "./support/browser.mjs";
import { useSite } from "./support/site.mjs";

const PAGE = fileURLToPath(new URL("../page/", import.meta.url));
const MODULES = fileURLToPath(new URL("../node_modules/", import.meta.url));
// The goal is 60 kB, which the page had before it said why something has ended, whom a change
// concerns, for whom a workspace exists, before it offered only what the service allows, and before
// assistants proposed memories. Each file is compressed by itself, in which repetitions cost next
// to nothing: what is left to remove are texts and screens.
const BYTES_MAX = 68_000;
const LINES_MAX = 500;

const site = useSite();

/** Paths of all files of the page. */
const paths = readdirSync(PAGE, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(PAGE.length));

test("files that a page loads stay within their budget", async () => {
  const { page, close } = await openPage(site.current.browser);
  /** @type {Map<string, Promise<Buffer>>} */
  const loaded = new Map();
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (pathname === "/" || pathname.startsWith("/console/")) loaded.set(pathname, response.body());
  });
  await signIn(page, site.current.demo.link());
  await settled(page);
  const sizes = await Promise.all(
    Array.from(loaded.values(), async (body) => gzipSync(await body, { level: 9 }).length),
  );
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`${loaded.size} files, ${(bytes / 1_000).toFixed(1)} kB in gzip`);
  assert.ok(bytes <= BYTES_MAX, `${bytes} bytes exceed ${BYTES_MAX}`);
  // Nothing is embedded that no page loads, except the part for pages without a server.
  const served = paths.filter((path) => /\.js$/.test(path) && path !== "api/offline.js");
  const names = new Set([...loaded.keys()].map((path) => path.replace("/console/", "")));
  assert.deepEqual(
    served.filter((path) => !names.has(path)),
    [],
  );
  await close();
});

test("files have no inline script, style or long text", () => {
  for (const path of paths.filter((path) => !path.startsWith("vendor/"))) {
    const text = readFileSync(join(PAGE, path), "utf8");
    assert.doesNotMatch(
      text,
      /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|\beval\(|new Function|javascript:/,
      path,
    );
    assert.ok(text.split("\n").length <= LINES_MAX, `${path} has more than ${LINES_MAX} lines`);
  }
});

test("vendored files are those of the package", () => {
  const vendored = paths.filter((path) => /^vendor\/lit-html\/.*(\.js|LICENSE)$/.test(path));
  assert.equal(vendored.length, 5);
  for (const path of vendored) {
    const original = readFileSync(join(MODULES, path.replace("vendor/", "")));
    assert.deepEqual(readFileSync(join(PAGE, path)), original, path);
  }
});
