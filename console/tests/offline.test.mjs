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

test("each screen and each action works without a server", async () => {
  const { page, context, close } = await openPage(browser);
  await page.goto(site.url);
  await settled(page);
  await context.setOffline(true);
  const dialog = page.getByRole("dialog");
  const press = (/** @type {string | RegExp} */ name) => page.getByRole("button", { name }).first().click();
  const answer = (/** @type {string | RegExp} */ name) => dialog.getByRole("button", { name, exact: true }).click();
  /** @param {string} screen */
  async function open(screen) {
    await page.getByRole("navigation").getByRole("link", { name: screen, exact: true }).click();
    assert.deepEqual(await findViolations(page), [], screen);
  }

  await open("Import");
  await press("New source");
  await dialog.getByLabel("Name").fill("Handover notes");
  await answer("Create");
  await dialog.waitFor({ state: "hidden" });
  const lines = Array.from({ length: 120 }, (_, index) => JSON.stringify({ title: `Note ${index}`, content: "Text." }));
  const file = { name: "notes.jsonl", mimeType: "text/plain", buffer: Buffer.from(lines.join("\n")) };
  await page.getByLabel("File of JSON lines").setInputFiles(file);
  await press("Import 120 memories");
  await page.getByText("120 memories imported.").waitFor();

  await open("Memories");
  await page.locator("tbody a").first().click();
  await page.locator(".memory .content").waitFor();
  await page.keyboard.press("Escape");
  await page.getByLabel("Select all that are shown").check();
  await press("Select all that match");
  await press("Relabel");
  await dialog.getByLabel("Sensitivity").selectOption("restricted");
  await answer(/^Change /);
  await dialog.getByText(/memories changed\.$/).waitFor();
  await answer(/^Undo /);
  await dialog.getByText(/memories restored\.$/).waitFor();
  await answer("Done");

  await open("Webhooks");
  await press("New webhook");
  await dialog.getByLabel("URL").fill("https://example.com/hook");
  await answer("Create");
  await dialog.locator(".secret code").waitFor();
  await answer("Done");
  await page.getByRole("link", { name: "https://example.com/hook" }).click();
  await press("Send a test event");
  await page.locator(".entries li").first().waitFor();
  await press("Deactivate");
  await page.getByText("It was deactivated.").waitFor();
  await press("Rotate secret");
  await answer("Rotate");
  await answer("Done");
  await press("Delete");
  await answer("Delete");
  await page.getByText("No webhooks").waitFor();
  await press("New inbound webhook");
  await dialog.getByLabel("Name").fill("Status page");
  await answer("Create");
  await answer("Done");
  await page.getByRole("row", { name: /Status page/ }).waitFor();

  await open("MCP keys");
  await press("New key");
  await dialog.getByLabel("Name").fill("Night shift");
  await answer("Create");
  await answer("Done");
  const key = page.getByRole("row", { name: /Night shift/ });
  await key.getByRole("button", { name: "Rotate" }).click();
  await answer("Rotate");
  await answer("Done");
  await key.getByRole("button", { name: "Revoke" }).click();
  await answer("Revoke");
  await key.waitFor({ state: "detached" });

  await open("Members");
  await press("Add member");
  await dialog.getByLabel("Name").fill("Noor Haddad");
  await dialog.getByLabel("Handle").fill("noor");
  await answer("Add");
  const member = page.getByRole("row", { name: /Noor Haddad/ });
  await member.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Role in the organisation").selectOption("viewer");
  await answer("Save");
  await member.getByText("viewer").waitFor();
  await member.getByRole("button", { name: "Remove" }).click();
  await answer("Remove");
  await member.waitFor({ state: "detached" });

  await open("Roles");
  await open("Audit log");
  await page.getByLabel("Action").fill("member.remove");
  await page.keyboard.press("Enter");
  await page.waitForURL(/action=member.remove/);
  await page.waitForFunction(() =>
    Array.from(document.querySelectorAll(".entry-action"))
      .map((action) => action.textContent?.trim())
      .join()
      .match(/^member\.remove$/),
  );
  await open("Dashboard");
  await close();
});
