// Tests of the same page over the service inside it, without a server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { serve } from "../dev/serve.mjs";
import { findViolations, launch, openPage, settled } from "./support/browser.mjs";

const PACKAGE = fileURLToPath(new URL("../../wasm/pkg/", import.meta.url));

/** @type {import("playwright-core").Browser} */
let browser;
/** @type {Awaited<ReturnType<typeof serve>>} */
let site;

before(async () => {
  browser = await launch();
  site = await serve({ packageDirectory: PACKAGE });
});

after(async () => {
  await browser.close();
  site.close();
});

test("page runs over the package, and keeps its changes", async () => {
  const { page, context, close } = await openPage(browser);
  /** @type {string[]} */
  const requests = [];
  page.on("request", (request) => requests.push(new URL(request.url()).pathname));
  await page.goto(site.url);
  await settled(page);
  await page.getByText("Offline: the service runs in this page.").waitFor();
  assert.deepEqual(await findViolations(page), []);

  await context.setOffline(true);
  await page.getByRole("navigation").getByRole("link", { name: "Review" }).click();
  await page.locator(".inbox [aria-current=true]:focus").waitFor();
  await page.keyboard.press("a");
  await page.getByText("1 decided").waitFor();
  await page.getByRole("link", { name: "Members" }).click();
  await page.getByRole("row", { name: /Maya/ }).waitFor();
  await page.getByRole("link", { name: "Roles" }).click();
  await page.getByRole("button", { name: "New role" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Helper");
  await page.getByRole("dialog").getByLabel("Slug").fill("helper");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "Helper" }).waitFor();
  await context.setOffline(false);
  assert.deepEqual(
    requests.filter((path) => path.startsWith("/v1/")),
    [],
  );

  await page.reload();
  await page.getByRole("heading", { name: "Helper" }).waitFor();
  await page.getByRole("link", { name: "Dashboard" }).click();
  await page.getByText("Review 5 memories").waitFor();
  await close();
});
