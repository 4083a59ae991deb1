// Tests of the dashboard, webhooks, MCP keys and the import.

import assert from "node:assert/strict";
import { test } from "node:test";

import { settled } from "./support/browser.mjs";
import { startReceiver } from "./support/receiver.mjs";
import { useSite } from "./support/site.mjs";

const site = useSite();

test("dashboard draws what the service knows", async () => {
  const { page, close } = await site.current.open("dashboard");
  const response = await fetch(
    `${site.current.demo.url}/v1/workspaces/${site.current.demo.workspace}/dashboard-summary`,
    {
      headers: { authorization: `Bearer ${site.current.demo.token}` },
    },
  );
  const summary = await response.json();
  await page.locator(".tile .figure").first().waitFor();
  assert.equal(await page.locator(".tile .figure").first().innerText(), String(summary.review_backlog_count));
  assert.equal(await page.locator(".rows .badge").count(), summary.connector_health.length);
  await page.getByRole("img", { name: /Memories added in the last 28 days/ }).waitFor();
  assert.ok((await page.locator(".spark rect:not(.none)").count()) > 3);
  assert.equal(await page.locator(".spark .line").count(), 1);
  const steps = [...summary.first_value_checklist.required, ...summary.first_value_checklist.suggested];
  await page
    .getByRole("img", { name: `${steps.filter(({ completed }) => completed).length} of ${steps.length} done` })
    .waitFor();
  await page.getByRole("link", { name: /^Review \d+ memories$/ }).click();
  await page.getByRole("heading", { name: "Review", exact: true }).waitFor();
  await close();
});

test("webhook is created, delivers, and is redelivered", async () => {
  const receiver = await startReceiver();
  const { page, close } = await site.current.open("webhooks");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "New webhook" }).click();
  await dialog.getByLabel("URL").fill("ftp://example.com/");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText("Something entered is not valid").waitFor();
  await dialog.getByLabel("URL").fill(receiver.url);
  await dialog.getByLabel("Event").selectOption("memory.updated");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.locator(".secret code").waitFor();
  const secret = await dialog.locator(".secret code").innerText();
  assert.match(secret, /^whsec_/);
  await dialog.getByRole("button", { name: "Copy" }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret);
  await dialog.getByText("Standard Webhooks").waitFor();
  await dialog.getByRole("button", { name: "Done" }).click();

  await page.getByRole("link", { name: receiver.url }).click();
  receiver.state.status = 500;
  await page.getByRole("button", { name: "Send a test event" }).click();
  const failed = page.locator(".entries li", { hasText: "dead" });
  await waitByRefreshing(page, failed);
  await failed.first().locator("summary").click();
  await failed.first().getByRole("cell", { name: "500" }).waitFor();
  receiver.state.status = 204;
  await failed.first().getByRole("button", { name: "Redeliver" }).click();
  await waitByRefreshing(page, page.locator(".entries li", { hasText: "delivered" }));

  await page.getByLabel("Status").selectOption("dead");
  await page.waitForURL(/status=dead/);
  await page.getByText("No deliveries").waitFor();
  await page.getByRole("button", { name: "Redeliver all dead" }).click();
  await page.getByText("There are no dead letters.").waitFor();
  await page.getByRole("button", { name: "Deactivate" }).click();
  await page.getByText("It was deactivated.").waitFor();
  // The service would refuse both.
  assert.equal(await page.getByRole("button", { name: /^(Send a test event|Redeliver)/ }).count(), 0);
  await page.getByRole("button", { name: "Rotate secret" }).click();
  await dialog.getByRole("button", { name: "Rotate" }).click();
  await dialog.locator(".secret code").waitFor();
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No webhooks").waitFor();
  await close();
  receiver.stop();
});

/**
 * Waits for something that the service does on its own.
 * @param {import("playwright-core").Page} page
 * @param {import("playwright-core").Locator} wanted
 */
async function waitByRefreshing(page, wanted) {
  for (let attempt = 0; attempt < 20 && (await wanted.count()) === 0; attempt += 1) {
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.waitForTimeout(300);
  }
  assert.ok((await wanted.count()) > 0);
}

test("inbound webhook is created, rotated and deleted", async () => {
  const { page, close } = await site.current.open("webhooks");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "New inbound webhook" }).click();
  await dialog.getByLabel("Name").fill("Status page");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.locator(".secret code").waitFor();
  await dialog.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row", { name: /Status page/ });
  await row.getByText("/v1/inbound/").waitFor();
  await row.getByRole("button", { name: "Rotate" }).click();
  await dialog.getByRole("button", { name: "Rotate" }).click();
  await dialog.locator(".secret code").waitFor();
  await dialog.getByRole("button", { name: "Done" }).click();
  await row.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await row.waitFor({ state: "detached" });
  await close();
});

test("MCP key is created, rotated and revoked", async () => {
  const { page, close } = await site.current.open("keys");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "New key" }).click();
  await dialog.getByLabel("Name").fill("Night shift");
  await dialog.getByLabel("Audience").fill("team:nowhere");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText("Cannot grant an audience that does not cover the caller: team:nowhere").waitFor();
  await dialog.getByLabel("Audience").fill("workspace:operations");
  await dialog.getByLabel("Source of the memories").selectOption({ index: 1 });
  await dialog.getByRole("button", { name: "Create" }).click();
  const first = await dialog.locator(".secret code").innerText();
  // A selection that ends outside closes nothing: the secret is shown only now.
  await dialog.locator(".secret code").hover();
  await page.mouse.down();
  await page.mouse.move(2, 2);
  await page.mouse.up();
  await dialog.getByRole("button", { name: "Copy" }).click();
  await dialog.getByRole("status").getByText("Copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), first);
  await dialog.getByRole("button", { name: "Done" }).click();
  const row = page.getByRole("row", { name: /Night shift/ });
  await row.getByText("Proposes memories").waitFor();
  await row.getByRole("button", { name: "Rotate" }).click();
  await dialog.getByRole("button", { name: "Rotate" }).click();
  await dialog.locator(".secret code").waitFor();
  assert.notEqual(await dialog.locator(".secret code").innerText(), first);
  await dialog.getByRole("button", { name: "Done" }).click();
  await row.getByRole("button", { name: "Revoke" }).click();
  await dialog.getByRole("button", { name: "Revoke" }).click();
  await row.waitFor({ state: "detached" });
  await close();
});

test("import creates, leaves invalid lines out, and repeats", async () => {
  const { page, close } = await site.current.open("import");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "New source" }).click();
  await dialog.getByLabel("Name").fill("Handover notes");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.waitFor({ state: "hidden" });
  const lines = Array.from({ length: 130 }, (_, index) => JSON.stringify({ title: `Note ${index}`, content: "Text." }));
  const file = {
    name: "notes.jsonl",
    mimeType: "text/plain",
    buffer: Buffer.from([...lines, "{}", "nope"].join("\n")),
  };
  const choose = () => page.getByLabel("File of JSON lines").setInputFiles(file);
  await choose();
  await page.getByText("Title is required").waitFor();
  await page.getByRole("button", { name: "Import 130 memories" }).click();
  await page.getByText("130 memories imported.").waitFor();
  assert.match(await page.locator(".counts").innerText(), /Created\s+130\s+Updated\s+0\s+Unchanged\s+0/);
  await page.getByRole("button", { name: "Import another" }).click();
  await choose();
  await page.getByRole("button", { name: "Import 130 memories" }).click();
  await page.getByText("130 memories imported.").waitFor();
  assert.match(await page.locator(".counts").innerText(), /Created\s+0\s+Updated\s+0\s+Unchanged\s+130/);
  await page.getByRole("link", { name: "Review them" }).click();
  await settled(page);
  await close();
});

test("import goes on past a line that the service rejects", async () => {
  const { page, close } = await site.current.open("import");
  const lines = ["Good", "Bad \u0007", "Better"].map((title) => JSON.stringify({ title, content: "Text." }));
  await page
    .getByLabel("File of JSON lines")
    .setInputFiles({ name: "rejected.jsonl", mimeType: "text/plain", buffer: Buffer.from(lines.join("\n")) });
  await page.getByRole("button", { name: "Import 3 memories" }).click();
  await page.getByText("2 memories imported.").waitFor();
  await page.getByText("Title must not contain the control character U+0007").waitFor();
  assert.match(await page.locator(".counts").innerText(), /With a problem\s+1\s+Created\s+2/);
  await close();
});
