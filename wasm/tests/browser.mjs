// Tests of the browser example, in Chromium: changes on the page persist, also offline.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { chromium } from "playwright-core";

import { serveFiles } from "./support/files.mjs";
import { CHROMIUM } from "./support/process.mjs";

const MEMORIES = 6;

/** Opens a page in a new browser, and collects its errors. */
async function open(t, options) {
  const url = `${await serveFiles(t)}/examples/browser/`;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  return { context, page, problems, url };
}

async function shown(page) {
  await page.waitForFunction((count) => document.querySelectorAll("#memories tr").length === count, MEMORIES);
}

/** Returns the sensitivity of each memory, as the page shows it. */
const labels = (page) => page.locator("#memories td:nth-child(3)").allTextContents();

async function relabel(page, label) {
  await page.getByLabel("Sensitivity of the selected").selectOption(label);
  await page.getByRole("button", { name: "Relabel" }).click();
}

/** Relabels all memories, and waits for the page to show it. */
async function relabelAll(page, label) {
  await page.getByLabel("Select all memories").check();
  await relabel(page, label);
  await page.getByText(`${MEMORIES} of ${MEMORIES} relabelled.`).waitFor();
  assert.deepEqual(new Set(await labels(page)), new Set([label]));
}

test("relabelled memories survive a reload and work offline", async (t) => {
  const { context, page, problems, url } = await open(t);
  await page.goto(url);
  await shown(page);
  await page.getByRole("heading", { name: "Product", level: 1 }).waitFor();
  await page.getByRole("button", { name: "Relabel" }).click();
  assert.equal(await page.textContent("#result"), "", "a label must be chosen first");
  await relabel(page, "public");
  await page.getByText("Select memories to relabel.").waitFor();

  await page.getByLabel("Select Where the backups are").check();
  await relabel(page, "public");
  await page.getByText("1 of 1 relabelled.").waitFor();
  const expected = ["confidential", "public", "confidential", "internal", "public", "internal"];
  assert.deepEqual(await labels(page), expected);
  await relabelAll(page, "restricted");
  assert.deepEqual(await page.locator("dd").allTextContents(), ["6", "6", "6"]);

  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  await shown(page);
  assert.deepEqual(new Set(await labels(page)), new Set(["restricted"]));

  assert.deepEqual(problems, []);
  await context.setOffline(true);
  for (const address of [url, `${url}index.html`, `${url}?again`]) {
    await page.goto(address);
    await shown(page);
    assert.deepEqual(new Set(await labels(page)), new Set(["restricted"]));
  }
  await relabelAll(page, "public");
  await page.getByText("Offline: everything still works").waitFor();
});

test("the page exposes its state to screen readers", async (t) => {
  const { page, url } = await open(t);
  await page.goto(url);
  await shown(page);
  const steps = await page.getByRole("listitem").allTextContents();
  assert.ok(steps.includes("Done: Bring in the first memory"), steps.join());
  assert.ok(steps.every((step) => /^(Done|To do): /.test(step)), steps.join());
  const boxes = await page.getByRole("table").getByRole("checkbox").all();
  const names = await Promise.all(boxes.map((box) => box.getAttribute("aria-label")));
  assert.equal(new Set(names).size, MEMORIES + 1, "each checkbox has its own name");
});

test("a demo whose key was cleared can be replaced", async (t) => {
  const { page, url } = await open(t);
  await page.goto(url);
  await shown(page);
  await relabelAll(page, "restricted");
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.getByText("the key that seals it was cleared").waitFor();
  page.once("dialog", (dialog) => dialog.accept());
  await page.getByRole("button", { name: "Start over with a new demo" }).click();
  await page.getByText("Who is on call").waitFor();
  assert.equal((await labels(page))[0], "confidential", "the demo is a new one");
});

test("the page works without its service worker", async (t) => {
  const { page, url, problems } = await open(t);
  await page.addInitScript(() => {
    navigator.serviceWorker.register = () => Promise.reject(new Error("not here"));
  });
  await page.goto(url);
  await shown(page);
  await relabelAll(page, "internal");
  assert.deepEqual(problems, []);
});

for (const colorScheme of ["light", "dark"]) {
  for (const width of [360, 1280]) {
    test(`the page fits ${width} pixels, ${colorScheme}`, async (t) => {
      const { page, url } = await open(t, { colorScheme, viewport: { width, height: 900 } });
      await page.goto(url);
      await shown(page);
      await page.getByLabel("Select Prices of next year").check();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      // Screenshots for review go to the directory SCREENSHOTS.
      const directory = process.env.SCREENSHOTS;
      if (!directory) return;
      mkdirSync(directory, { recursive: true });
      await page.screenshot({ path: join(directory, `${colorScheme}-${width}.png`), fullPage: true });
    });
  }
}
