// Tests of the files that are served.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { readServed, ROOT, servedPaths } from "../dev/embed.mjs";

const BYTES_MAX = 60_000;
const LINES_MAX = 500;
/** Files that the page of a server does not load. */
const NOT_LOADED = new Set(["api/offline.js", "vendor/lit-html/LICENSE"]);

test("files that a page loads stay within their budget", () => {
  const loaded = servedPaths().filter((path) => !NOT_LOADED.has(path));
  const bytes = loaded.reduce((sum, path) => sum + gzipSync(readServed(path), { level: 9 }).length, 0);
  console.log(`${loaded.length} files, ${(bytes / 1_000).toFixed(1)} kB in gzip`);
  assert.ok(bytes <= BYTES_MAX, `${bytes} bytes exceed ${BYTES_MAX}`);
});

test("files have no inline script, style or long text", () => {
  for (const path of servedPaths().filter((path) => !path.startsWith("vendor/"))) {
    const text = readFileSync(join(ROOT, path), "utf8");
    assert.doesNotMatch(
      text,
      /<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|\beval\(|new Function|javascript:/,
      path,
    );
    assert.ok(text.split("\n").length <= LINES_MAX, `${path} has more than ${LINES_MAX} lines`);
  }
});

test("vendored files are those of the package", () => {
  const vendored = servedPaths().filter((path) => path.startsWith("vendor/lit-html/"));
  assert.equal(vendored.length, 5);
  for (const path of vendored) {
    const original = readFileSync(join(ROOT, path.replace("vendor", "node_modules")));
    assert.deepEqual(readFileSync(join(ROOT, path)), original, path);
  }
});
