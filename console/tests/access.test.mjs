// Tests of what the page shows to members who may not do or know everything.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openPage, settled, signIn } from "./support/browser.mjs";
import { WORKSPACE } from "./support/demo.mjs";
import { useSite } from "./support/site.mjs";

/** @import { Page } from "playwright-core" */

const site = useSite();

/**
 * Returns the names of the screens that the navigation offers.
 * @param {Page} page
 */
const offered = (page) => page.getByRole("navigation").getByRole("link").allInnerTexts();

test("navigation offers only what the caller may read", async () => {
  const admin = await site.current.open("dashboard");
  assert.deepEqual(await offered(admin.page), [
    "Dashboard",
    "Memories",
    "Review",
    "Import",
    "Webhooks",
    "MCP keys",
    "Members",
    "Roles",
    "Audit log",
  ]);
  await admin.close();
  const viewer = await site.current.open("dashboard", { credentials: site.current.demo.credentialsOf("hannah.cole") });
  assert.deepEqual(await offered(viewer.page), [
    "Dashboard",
    "Memories",
    "Review",
    "Import",
    "MCP keys",
    "Members",
    "Roles",
  ]);
  assert.equal(await viewer.page.locator(".tile").count(), 1);
  await viewer.close();
});

test("screen without permission explains why", async () => {
  const { page, close } = await site.current.open("audit", {
    credentials: site.current.demo.credentialsOf("hannah.cole"),
  });
  await page.getByText("You may not do this").waitFor();
  await page.getByText("Missing permission audit:read.").waitFor();
  await close();
});

test("refused action is explained, and its button remembers it", async () => {
  const { page, close } = await site.current.open("keys", {
    credentials: site.current.demo.credentialsOf("hannah.cole"),
  });
  await page
    .getByRole("button", { name: /^Revoke/ })
    .first()
    .click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByText("Missing permission mcp_key:manage.").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  const refused = page.getByRole("button", { name: /^Revoke/ }).first();
  assert.equal(await refused.getAttribute("aria-disabled"), "true");
  assert.equal(await refused.getAttribute("title"), "missing permission mcp_key:manage");
  await refused.click({ force: true });
  await page.getByText("Your role does not allow this: missing permission mcp_key:manage.").waitFor();
  await close();
});

test("page never shows what labels hide from the caller", async () => {
  const admin = await site.current.open("memories?sensitivityLabel=restricted");
  const shown = await admin.page.locator("tbody th").allInnerTexts();
  const addresses = await admin.page
    .locator("tbody th a")
    .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
  assert.ok(shown.length > 0);
  await admin.close();

  const { page, close } = await site.current.open("memories?sensitivityLabel=restricted", {
    credentials: site.current.demo.credentialsOf("hannah.cole"),
  });
  for (const address of addresses.slice(0, 3)) {
    await page.goto(`${site.current.url}${address}`);
    await settled(page);
    await page
      .getByRole("dialog")
      .getByText(/Not found|Content hidden from you/)
      .first()
      .waitFor();
    const text = await page.locator("body").innerText();
    for (const title of shown) assert.ok(!text.includes(title), title);
    await page.keyboard.press("Escape");
  }
  await close();
});

test("page without a session hides what requires one", async () => {
  const { token } = site.current.demo.credentials;
  const { page, close } = await site.current.open("members", { credentials: { token, session: "", organization: "" } });
  assert.ok(!(await offered(page)).includes("Members"));
  await page.getByText("sign in with a session").waitFor();
  await close();
});

test("token that ends asks to sign in again, at the same place", async () => {
  const { page, close } = await site.current.open("memories");
  await page.route("**/v1/**", (route) =>
    route.fulfill({ status: 401, json: { error: "unauthenticated", message: "no valid credential", details: {} } }),
  );
  await page.getByLabel("Sensitivity").selectOption("public");
  await page.getByText("You are signed out.").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length + document.cookie.length), 0);
  await page.unroute("**/v1/**");
  await signIn(page, page.url(), site.current.demo.credentials);
  await settled(page);
  assert.match(page.url(), /memories\?sensitivityLabel=public$/);
  await close();
});

test("wrong token is refused at once", async () => {
  const { page, close } = await openPage(site.current.browser);
  await page.goto(`${site.current.url}#/${WORKSPACE}/dashboard`);
  await page.getByLabel("Access token").fill("wkt_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("You are signed out.").waitFor();
  await close();
});
