// Tests of what the page shows to members who may not do or know everything.

import assert from "node:assert/strict";
import { test } from "node:test";

import { findViolations, openPage, settled, signIn } from "./support/browser.mjs";
import { WORKSPACE } from "./support/demo.mjs";
import { useSite } from "./support/site.mjs";

/** @import { Page } from "playwright-core" */

/** A member of the demo who may only read. */
const VIEWER = "hannah.cole";
/** An administrator, who is no owner. */
const ADMINISTRATOR = "jonas.weber";

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
    "Account",
  ]);
  await admin.close();
  const viewer = await site.current.open("dashboard", { member: VIEWER });
  assert.deepEqual(await offered(viewer.page), ["Dashboard", "Memories", "MCP keys", "Members", "Roles", "Account"]);
  assert.equal(await viewer.page.locator(".tile").count(), 5);
  await viewer.close();
});

test("workspaces beyond the first page can be chosen", async () => {
  const { page, close } = await site.current.open("dashboard");
  await page.route("**/v1/workspaces?*", (route) =>
    route.continue({ url: route.request().url().replace("limit=200", "limit=1") }),
  );
  await page.reload();
  await settled(page);
  assert.equal(await page.getByLabel("Workspace").locator("option").count(), 2);
  await close();
});

test("screen without permission explains why", async () => {
  const { page, close } = await site.current.open("audit", {
    member: VIEWER,
  });
  await page.getByText("You may not do this").waitFor();
  await page.getByText("Missing permission audit:read.").waitFor();
  await close();
});

test("button that the service would refuse is not offered", async () => {
  const buttons = (/** @type {Page} */ page) => page.getByRole("main").getByRole("button").allInnerTexts();
  for (const screen of ["dashboard", "keys", "members", "roles"]) {
    const { page, close } = await site.current.open(screen, { member: VIEWER });
    assert.deepEqual(await buttons(page), [], screen);
    await close();
  }
  const { page, close } = await site.current.open("memories", { member: VIEWER });
  await page.getByRole("checkbox").nth(1).check();
  assert.deepEqual(await page.getByRole("region", { name: "Selection" }).getByRole("button").allInnerTexts(), [
    "Select all that match",
    "Clear",
  ]);
  await close();
});

test("administrator is offered what only owners may do neither for owners nor for themselves", async () => {
  const admin = await site.current.open("members", { member: ADMINISTRATOR });
  const named = (/** @type {RegExp} */ name) =>
    admin.page.getByRole("row", { name }).getByRole("button").allInnerTexts();
  assert.deepEqual(await named(/maya\.okafor/), []);
  assert.deepEqual(await named(/jonas\.weber/), ["Edit", "Remove"]);
  assert.deepEqual(await named(/hannah\.cole/), ["Edit", "Workspaces", "Remove"]);
  await admin.page.getByRole("button", { name: "Add member" }).click();
  const roles = await admin.page.getByRole("dialog").getByLabel("Role").locator("option").allInnerTexts();
  assert.ok(roles.includes("admin") && !roles.includes("owner"));
  await admin.page.keyboard.press("Escape");
  // The workspace would no longer exist for somebody without a role in it.
  await admin.page.getByRole("link", { name: "Dashboard" }).click();
  await settled(admin.page);
  assert.equal(await admin.page.getByRole("button", { name: "Make private" }).count(), 0);
  await admin.close();
});

test("only owner is not offered to remove itself", async () => {
  const { page, close } = await site.current.open("members");
  const named = (/** @type {RegExp} */ name) => page.getByRole("row", { name }).getByRole("button").allInnerTexts();
  assert.deepEqual(await named(/maya\.okafor/), ["Edit", "Workspaces"]);
  assert.deepEqual(await named(/jonas\.weber/), ["Edit", "Workspaces", "Remove"]);
  await close();
});

test("refused action is explained, and its buttons are gone", async () => {
  const { page, close } = await site.current.open("keys");
  await page.route("**/mcp-keys/*", (route) =>
    route.fulfill({
      status: 403,
      json: {
        error: "forbidden",
        message: "missing permission mcp_key:manage",
        details: { permission: "mcp_key:manage" },
      },
    }),
  );
  const revoke = page.getByRole("button", { name: /^Revoke/ });
  await revoke.first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByText("Missing permission mcp_key:manage.").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("table").waitFor();
  assert.equal(await revoke.count(), 0);
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
    member: VIEWER,
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

test("session that ends asks to sign in again, at the same place", async () => {
  const { page, context, close } = await site.current.open("memories");
  await context.clearCookies();
  await page.reload();
  await page.getByText("Ask your operator for a link.").waitFor();
  await signIn(page, site.current.demo.link());
  await page.goto(`${site.current.url}#/${WORKSPACE}/memories`);
  await settled(page);

  await page.route("**/v1/**", (route) =>
    route.fulfill({ status: 401, json: { error: "unauthenticated", message: "no valid credential", details: {} } }),
  );
  await page.getByLabel("Sensitivity").selectOption("public");
  await page.getByText("You are signed out.").waitFor();
  await page.unroute("**/v1/**");
  await page.getByLabel("Sign-in link").fill(site.current.demo.link());
  await page.getByRole("button", { name: "Sign in" }).click();
  await settled(page);
  assert.match(page.url(), /memories\?sensitivityLabel=public$/);
  await close();
});

test("sign-in page leads to the provider, which leads back to the same place", async () => {
  const { page, close } = await openPage(site.current.browser);
  await page.route("**/auth/oidc", (route) => route.fulfill({ json: { label: "Example & Sons" } }));
  const place = `#/${WORKSPACE}/memories?sensitivityLabel=public`;
  await page.goto(`${site.current.url}${place}`);
  const link = page.getByRole("link", { name: "Sign in with Example & Sons" });
  assert.equal(await link.getAttribute("href"), `auth/oidc/start?return_to=${encodeURIComponent(place)}`);
  await close();
});

test("sign-in page does not wait for the name of the provider", async () => {
  const { page, close } = await openPage(site.current.browser);
  /** @type {Error[]} */
  const errors = [];
  page.on("pageerror", (error) => errors.push(error));
  /** @type {(body: string) => void} */
  let answer = () => {};
  const answered = new Promise((resolve) => (answer = resolve));
  await page.route("**/auth/oidc", async (route) => route.fulfill({ body: await answered }));
  await page.goto(site.current.url);
  await page.getByLabel("Sign-in link").fill("begun");
  // A proxy may answer with a page of its own.
  const arrived = page.waitForResponse("**/auth/oidc");
  answer("<!doctype html>");
  await (await arrived).finished();
  assert.equal(await page.getByLabel("Sign-in link").inputValue(), "begun");
  assert.equal(await page.getByRole("link", { name: "Sign in with" }).count(), 0);
  assert.deepEqual(errors, []);
  await close();
});

test("page works below a path of its host", async () => {
  const { page, close } = await openPage(site.current.browser);
  // A proxy in front of the server, which removes the path.
  await page.route("**/*", (route) => {
    const url = route.request().url();
    return url.startsWith(`${site.current.url}below/`)
      ? route.continue({ url: url.replace("/below/", "/") })
      : route.abort();
  });
  await signIn(page, site.current.demo.link().replace("/#", "/below/#"));
  await settled(page);
  assert.ok(page.url().startsWith(`${site.current.url}below/#`));
  assert.ok((await offered(page)).includes("Audit log"));
  await close();
});

test("link works once, and leaves no trace in the page", async () => {
  const link = site.current.demo.link();
  const first = await openPage(site.current.browser);
  await signIn(first.page, link);
  await settled(first.page);
  assert.ok(!first.page.url().includes("wkl_"));
  assert.equal(await first.page.evaluate(() => sessionStorage.length + localStorage.length), 0);
  assert.equal(await first.page.evaluate(() => document.cookie), "");
  const [cookie] = await first.context.cookies();
  assert.deepEqual([cookie?.name, cookie?.httpOnly, cookie?.sameSite], ["service_session", true, "Lax"]);
  await first.close();

  const second = await openPage(site.current.browser);
  await second.page.goto(link);
  await second.page.getByRole("button", { name: "Sign in" }).click();
  await second.page.getByText("This link was used, has expired or is not complete.").waitFor();
  await second.page.getByLabel("Sign-in link").fill("wkl_wrong");
  await second.page.getByRole("button", { name: "Sign in" }).click();
  await second.page.getByText("This link was used, has expired or is not complete.").waitFor();
  assert.equal((await second.context.cookies()).length, 0);
  await second.close();
});

test("link that is opened is not used until a click", async () => {
  const link = site.current.demo.link();
  const scanner = await openPage(site.current.browser);
  let logins = 0;
  scanner.page.on("request", (request) => (logins += Number(request.url().endsWith("/auth/login"))));
  await scanner.page.goto(link);
  await scanner.page.getByText("Your link signs you in, once.").waitFor();
  await scanner.page.waitForLoadState("networkidle");
  assert.deepEqual(await findViolations(scanner.page), []);
  assert.equal(logins, 0);
  assert.equal((await scanner.context.cookies()).length, 0);
  await scanner.close();

  const { page, close } = await openPage(site.current.browser);
  await signIn(page, link);
  await close();
});

test("link replaces a member only if they agree", async () => {
  const { page, context, close } = await site.current.open("memories");
  const cookie = async () => (await context.cookies())[0]?.value;
  const before = await cookie();
  const link = site.current.demo.link(VIEWER);
  let logins = 0;
  page.on("request", (request) => (logins += Number(request.url().endsWith("/auth/login"))));

  // Followed in the open page, which stays where it was.
  await page.goto(link);
  await page.getByText(/^You are signed in as Maya/).waitFor();
  assert.deepEqual(await findViolations(page), []);
  await page.getByRole("button", { name: "Cancel" }).click();
  await settled(page);
  assert.match(page.url(), new RegExp(`#/${WORKSPACE}/memories$`));
  assert.deepEqual([logins, await cookie()], [0, before]);

  // Followed from another page.
  await page.goto("about:blank");
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in" }).click();
  await settled(page);
  assert.ok(!page.url().includes("wkl_"));
  assert.notEqual(await cookie(), before);
  await page.goto(`${site.current.url}#/${WORKSPACE}/account`);
  await page.getByText("(hannah.cole)").waitFor();
  const headers = { cookie: `service_session=${before}` };
  assert.equal((await fetch(`${site.current.url}auth/session`, { headers })).status, 401);
  await close();
});

test("member who signs out is signed out everywhere in the browser", async () => {
  const { page, context, close } = await site.current.open("dashboard");
  const other = await context.newPage();
  await other.goto(`${site.current.url}#/${WORKSPACE}/memories`);
  await settled(other);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
  assert.equal((await context.cookies()).length, 0);
  await other.getByLabel("Sensitivity").selectOption("public");
  await other.getByText("You are signed out.").waitFor();
  await close();
});

test("signed-out page stays one, whatever the address becomes", async () => {
  const { page, close } = await site.current.open("dashboard");
  await page.goto(`${site.current.url}#/${WORKSPACE}/memories`);
  await settled(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
  await page.goBack();
  await page.getByText("You are signed out.").waitFor();

  // A double click sends the link once.
  let logins = 0;
  page.on("request", (request) => (logins += Number(request.url().endsWith("/auth/login"))));
  await page.getByLabel("Sign-in link").fill(site.current.demo.link());
  await page.getByRole("button", { name: "Sign in" }).dblclick();
  await page.getByRole("navigation").waitFor();
  await settled(page);
  assert.equal(logins, 1);
  await close();
});

test("dialog ends with the session", async () => {
  const { page, close } = await site.current.open("members");
  await page.getByRole("button", { name: "Add member" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Noor");
  await dialog.getByLabel("Handle").fill("noor");
  await page.route("**/members", (route) => route.fulfill({ status: 401, json: { error: "unauthenticated" } }));
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("You are signed out.").waitFor();
  await dialog.waitFor({ state: "hidden" });
  await close();
});

test("what a member left running ends with the session", async () => {
  const { page, close } = await site.current.open("members");
  // A write that is sent again after a while.
  const later = { status: 503, headers: { "retry-after": "8" } };
  await page.route("**/members", (route) => route.fulfill(later), { times: 1 });
  await page.getByRole("button", { name: "Add member" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Left running");
  await dialog.getByLabel("Handle").fill("left.running");
  let writes = 0;
  page.on("request", (request) => (writes += Number(request.method() === "POST" && /members$/.test(request.url()))));
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  // Another one signs in with a link, in the same page.
  await page.goto(site.current.demo.link(ADMINISTRATOR));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation").waitFor();
  await page.waitForTimeout(9_000);
  assert.equal(writes, 1);
  await close();
});

test("sign-out that fails says so, and can be repeated", async () => {
  const { page, context, close } = await site.current.open("dashboard");
  await page.route("**/auth/logout", (route) => route.abort("connectionreset"), { times: 1 });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You may still be signed in on this device").waitFor();
  await page.getByText("The server cannot be reached.").waitFor();
  assert.equal(await page.getByRole("navigation").count(), 0);
  await page.route("**/auth/logout", (route) => route.fulfill({ status: 503 }), { times: 1 });
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("The server answered 503.").waitFor();
  assert.equal((await context.cookies()).length, 1);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByLabel("Sign-in link").waitFor();
  assert.equal((await context.cookies()).length, 0);
  await close();
});

test("member ends another session of theirs", async () => {
  const mine = await site.current.open("account", { member: VIEWER });
  const theirs = await site.current.open("memories", { member: VIEWER });
  await mine.page.reload();
  await settled(mine.page);
  assert.equal(await mine.page.getByText("This session").count(), 1);
  const ends = mine.page.getByRole("button", { name: /^End / });
  for (let left = await ends.count(); left > 0; left -= 1) {
    await ends.first().click();
    await mine.page.getByRole("dialog").getByRole("button", { name: "End" }).click();
    await mine.page.getByRole("dialog").waitFor({ state: "hidden" });
    await settled(mine.page);
  }
  assert.equal(await mine.page.locator("tbody tr").count(), 1);
  await theirs.page.getByLabel("Sensitivity").selectOption("public");
  await theirs.page.getByText("You are signed out.").waitFor();
  await theirs.close();
  await mine.close();
});

test("workspace is made private and opened again", async () => {
  const { page, close } = await site.current.open("dashboard");
  await page.getByText("Open: for every member of the organisation.").waitFor();
  await page.getByRole("button", { name: "Make private" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("members with a role in it, and owners").waitFor();
  await dialog.getByText("Webhooks and MCP keys of others are suspended.").waitFor();
  await dialog.getByRole("button", { name: "Make private" }).click();
  await page.getByText("Private: for members with a role in it, and owners.").waitFor();
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Open to everybody" }).click();
  await dialog.getByRole("button", { name: "Open to everybody" }).click();
  await page.getByText("Open: for every member of the organisation.").waitFor();
  await close();
});

test("added person signs in with the link that is shown once", async () => {
  const { page, close } = await site.current.open("members");
  await page.getByRole("button", { name: "Add member" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Ines Duarte");
  await dialog.getByLabel("Handle").fill("ines.duarte");
  await dialog.getByLabel("Show a link").check();
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  const link = await dialog.locator(".secret code").innerText();
  const [secret] = /wkl_[\w-]+/.exec(link) ?? [];
  assert.ok(secret, link);
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("row", { name: /Ines Duarte/ }).waitFor();
  await close();

  const theirs = await openPage(site.current.browser);
  await signIn(theirs.page, `${site.current.url}#/login/${secret}`);
  await theirs.page.getByRole("link", { name: "Account" }).click();
  await theirs.page.getByText("(ines.duarte)").waitFor();
  await theirs.close();
});

/**
 * Creates an MCP key on the screen of the keys.
 * @param {Page} page
 * @param {string} name
 */
async function createKey(page, name) {
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("row", { name }).getByText("active").waitFor();
}

test("sign-out shows what the session created, which goes on working", async () => {
  const { page, close } = await site.current.open("keys");
  await createKey(page, "Left behind");
  await page.getByRole("button", { name: "Sign out" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Left behind", { exact: true }).waitFor();
  await dialog.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
  await close();

  const later = await site.current.open("keys");
  await later.page.getByRole("row", { name: "Left behind" }).getByText("active").waitFor();
  await later.close();
});

test("sign-out ends what the session created on request", async () => {
  const { page, close } = await site.current.open("keys");
  await createKey(page, "Lent out");
  await page.getByRole("button", { name: "Sign out" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("End all of it too").check();
  await dialog.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
  await close();

  const later = await site.current.open("keys");
  const ended = later.page.getByRole("row", { name: "Lent out" });
  await ended.getByText("It was ended with the credential that created it.").waitFor();
  await later.close();
});

test("session ends with what it created", async () => {
  const { page, close } = await site.current.open("keys");
  await createKey(page, "Leaked");

  await page.getByRole("link", { name: "Account" }).click();
  await page.getByRole("button", { name: "What it created" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Leaked", { exact: true }).waitFor();
  await dialog.getByLabel("End all of it too").check();
  await dialog.getByRole("button", { name: "End" }).click();
  await page.getByText("You are signed out.").waitFor();
  await close();

  const later = await site.current.open("keys");
  const ended = later.page.getByRole("row", { name: /Leaked/ });
  await ended.getByText("It was ended with the credential that created it.").waitFor();
  await later.close();
});
