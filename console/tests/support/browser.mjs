// The console in a browser, whose every complaint fails the test.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

/** @import { Browser, Page } from "playwright-core" */

const BROWSER = process.env.CHROMIUM ?? "/usr/bin/chromium";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TIMEOUT_MS = 15_000;

/** Console messages of the browser about responses that a test asks for. */
const EXPECTED = /Failed to load resource|net::ERR_/;

/**
 * Starts the browser.
 * @param {string[]} [args] Further arguments.
 */
export const launch = (args = []) => chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", ...args] });

/**
 * Opens a page, and collects its errors and violations of its policy.
 * @param {Browser} browser
 * @param {{ width?: number, scheme?: "light" | "dark" }} [options]
 */
export async function openPage(browser, { width = 1280, scheme = "light" } = {}) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: scheme,
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(TIMEOUT_MS);
  const page = await context.newPage();
  /** @type {string[]} */
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !EXPECTED.test(message.text())) complaints.push(message.text());
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  return {
    page,
    context,
    /** Closes the page, after checking that it had nothing to complain about. */
    async close() {
      await context.close();
      assert.deepEqual(complaints, []);
    },
  };
}

/**
 * Signs in by a link.
 * @param {Page} page
 * @param {string} link
 */
export async function signIn(page, link) {
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page
    .getByRole("navigation")
    .or(page.getByRole("button", { name: "Menu" }))
    .first()
    .waitFor();
}

/**
 * Waits until nothing loads any more.
 * @param {Page} page
 */
export async function settled(page) {
  await page.locator("h1").first().waitFor();
  await page.waitForFunction(() => document.querySelector(".loading") === null);
  await page.waitForLoadState("networkidle");
}

/**
 * Returns what axe finds wrong with the page once it has settled, in lines.
 * @param {Page} page
 * @returns {Promise<string[]>}
 */
export async function findViolations(page) {
  await settled(page);
  // Evaluated by the debugger, to which the policy of the page does not apply.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate("axe.run({ resultTypes: ['violations'] })");
  return violations.flatMap((/** @type {any} */ { id, nodes }) =>
    nodes.map((/** @type {any} */ node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`),
  );
}

/**
 * Returns true if the page is wider than the window.
 * @param {Page} page
 */
export const overflows = (page) => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
