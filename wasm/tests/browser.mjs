// The example for browsers, in Chromium: what is done on the page is still there afterwards, also without a network.

import assert from "node:assert/strict";
import { test } from "node:test";

import { chromium } from "playwright-core";

import { serveFiles } from "./support/files.mjs";
import { CHROMIUM } from "./support/process.mjs";

const MEMORIES = 6;

/** The sensitivity of each memory, as the page shows it. */
const labels = (page) => page.locator("#memories td:nth-child(3)").allTextContents();

async function shown(page) {
  await page.waitForFunction((count) => document.querySelectorAll("#memories tr").length === count, MEMORIES);
}

async function relabel(page, label) {
  await page.check("#all");
  await page.selectOption("#label", label);
  await page.click("#relabel button");
  await page.getByText(`${MEMORIES} of ${MEMORIES} relabelled.`).waitFor();
  await page.waitForFunction(
    (label) => [...document.querySelectorAll("#memories td:nth-child(3)")].every((cell) => cell.textContent === label),
    label,
  );
}

test("memories are relabelled, kept over a reload, and there without a network", async (t) => {
  const url = await serveFiles(t);
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const context = await browser.newContext();
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));

  await page.goto(`${url}/examples/browser/`);
  await shown(page);
  assert.equal(await page.textContent("#workspace"), "Product");
  await relabel(page, "restricted");

  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  await shown(page);
  assert.deepEqual(new Set(await labels(page)), new Set(["restricted"]));

  assert.deepEqual(problems, []);
  await context.setOffline(true);
  await page.reload();
  await shown(page);
  assert.deepEqual(new Set(await labels(page)), new Set(["restricted"]));
  await relabel(page, "public");
  await page.getByText("Without a network").waitFor();
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT, fullPage: true });
});
