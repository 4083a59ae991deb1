// Tests of memories: filters, selection, bulk updates and their undoing, and the review inbox.

import assert from "node:assert/strict";
import { test } from "node:test";

import { settled } from "./support/browser.mjs";
import { useSite } from "./support/site.mjs";

/** @import { Page, Request } from "playwright-core" */

const site = useSite();

/**
 * Records the bulk updates that a page sends.
 * @param {Page} page
 */
function recordUpdates(page) {
  /** @type {{ key: string | undefined, body: any }[]} */
  const updates = [];
  page.on("request", (/** @type {Request} */ request) => {
    if (request.url().endsWith("/v1/memories/bulk")) {
      updates.push({ key: request.headers()["idempotency-key"], body: request.postDataJSON() });
    }
  });
  return updates;
}

test("filters live in the address", async () => {
  const { page, close } = await site.current.open("memories");
  await page.getByLabel("Sensitivity").selectOption("restricted");
  await page.waitForURL(/sensitivityLabel=restricted/);
  // The address changes before the memories do.
  const cells = page.locator("td[data-label=Sensitivity]");
  const others = cells.filter({ hasNotText: "restricted" }).first();
  await others.waitFor({ state: "detached" });
  await settled(page);
  const labels = await cells.allInnerTexts();
  assert.ok(labels.length > 0);
  assert.deepEqual([...new Set(labels)], ["restricted"]);

  await page.reload();
  await settled(page);
  assert.equal(await page.getByLabel("Sensitivity").inputValue(), "restricted");
  await page.goBack();
  await others.waitFor();
  assert.equal(await page.getByLabel("Sensitivity").inputValue(), "");
  await page.getByLabel("Audience").fill("team:nobody");
  await page.keyboard.press("Enter");
  await page.getByText("Nothing matches").waitFor();
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await page.locator("tbody tr").first().waitFor();
  await close();
});

test("memory opens with its text, and its address can be shared", async () => {
  const { page, close } = await site.current.open("memories?sensitivityLabel=public");
  await page.locator("tbody a").filter({ hasNotText: "Content hidden from you" }).first().click();
  await page.locator(".memory .content").waitFor();
  const address = page.url();
  assert.match(address, /memories\/[0-9a-f-]{36}\?sensitivityLabel=public/);
  await page.keyboard.press("Escape");
  await page.waitForURL(/memories\?sensitivityLabel=public$/);
  await page.goto(address);
  await page.locator(".memory .content").waitFor();
  await page.goBack();
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await close();
});

test("bulk relabel previews, changes, lists and undoes", async () => {
  const { page, close } = await site.current.open("memories?sensitivityLabel=internal");
  const updates = recordUpdates(page);
  await page.getByLabel("Select all that are shown").check();
  await page.getByRole("button", { name: "Select all that match" }).click();
  await page.getByRole("region", { name: "Selection" }).waitFor();
  const selection = await page.getByRole("region", { name: "Selection" }).innerText();
  const selected = Number(/(\d+) memories selected/.exec(selection)?.[1]);
  assert.ok(selected > 50, selection);

  await page.getByRole("button", { name: "Relabel" }).click();
  const dialog = page.getByRole("dialog");
  assert.ok(await dialog.getByRole("button", { name: "Nothing to change" }).isDisabled());
  await dialog.getByLabel("Sensitivity").selectOption("internal");
  assert.match(
    await dialog.locator(".preview").innerText(),
    new RegExp(`Will change\\s+0\\s+Already so\\s+${selected}`),
  );
  await dialog.getByLabel("Sensitivity").selectOption("public");
  assert.match(await dialog.locator(".preview").innerText(), new RegExp(`Less protected\\s+${selected}`));
  await dialog.getByLabel("Sensitivity").selectOption("confidential");
  await dialog.getByRole("button", { name: `Change ${selected}` }).click();
  await dialog.getByText(`${selected} of ${selected} memories changed.`).waitFor();
  assert.ok((await dialog.locator(".results tbody tr").count()) > 50);

  await dialog.getByRole("button", { name: `Undo ${selected}` }).click();
  await dialog.getByText(`${selected} of ${selected} memories restored.`).waitFor();
  const [change, undo] = updates;
  assert.equal(updates.length, 2);
  assert.notEqual(change?.key, undo?.key);
  assert.equal(change?.body.sensitivityLabel, "confidential");
  assert.deepEqual(undo?.body, { memoryIds: change?.body.memoryIds, sensitivityLabel: "internal" });

  await dialog.getByRole("button", { name: "Done" }).click();
  await settled(page);
  assert.equal(await page.getByRole("region", { name: "Selection" }).count(), 0);
  assert.ok((await page.locator("tbody tr").count()) > 0);
  await close();
});

test("bulk relabel to a label that covers nobody asks again", async () => {
  const { page, close } = await site.current.open("memories?sensitivityLabel=internal");
  const updates = recordUpdates(page);
  await page.locator("tbody .pick input").first().check();
  await page.getByRole("button", { name: "Relabel" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Audience").fill("team:nosuch");
  await dialog.getByRole("button", { name: "Change 1", exact: true }).click();
  await dialog.getByText("The label team:nosuch covers nobody").waitFor();
  assert.deepEqual(
    updates.map(({ body }) => body.dryRun),
    [true],
  );
  await dialog.getByRole("button", { name: "Change 1 anyway" }).click();
  await dialog.getByText("1 of 1 memory changed.").waitFor();
  await dialog.getByText("The label team:nosuch covers nobody").waitFor();
  await dialog.getByRole("button", { name: "Undo 1" }).click();
  await dialog.getByText("1 of 1 memory restored.").waitFor();
  assert.equal(updates.length, 3);
  await dialog.getByRole("button", { name: "Done" }).click();
  await close();
});

test("bulk update shows what was refused, item by item", async () => {
  const { page, close } = await site.current.open("memories?sensitivityLabel=internal", { member: "tomas.lindqvist" });
  await page.getByLabel("Select all that are shown").check();
  await page.getByRole("button", { name: "Relabel" }).click();
  const dialog = page.getByRole("dialog");
  // What may not be lowered is left out.
  await dialog.getByLabel("Sensitivity").selectOption("public");
  await dialog.getByText("Left out", { exact: true }).waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Nothing to change" }).isDisabled());
  await dialog.getByLabel("Sensitivity").selectOption("");
  await dialog.getByLabel("Audience").fill("user:maya.okafor");
  await dialog.getByRole("button", { name: /^Change / }).click();
  await dialog.getByText(/^0 of \d+ memories changed\.$/).waitFor();
  await dialog.getByText("Missing permission memory:share").first().waitFor();
  assert.equal(await dialog.getByRole("button", { name: /^Undo/ }).count(), 0);
  await close();
});

test("review inbox is decided on by keyboard", async () => {
  const { page, close } = await site.current.open("review");
  const updates = recordUpdates(page);
  const current = page.locator(".inbox [aria-current=true] strong");
  await page.locator(".inbox [aria-current=true]:focus").waitFor();
  const first = await current.innerText();
  await page.keyboard.press("j");
  const second = await current.innerText();
  assert.notEqual(first, second);
  await page.keyboard.press("k");
  assert.equal(await current.innerText(), first);

  // A key that is held decides once.
  await page.keyboard.down("a");
  await page.keyboard.down("a");
  await page.keyboard.up("a");
  await page.getByText("1 decided").waitFor();
  await page.locator(".inbox [aria-current=true]:focus").waitFor();
  assert.equal(await current.innerText(), second);
  await page.keyboard.press("r");
  await page.getByText("2 decided").waitFor();
  await page.keyboard.press("u");
  await page.getByText("1 decided").waitFor();
  await page.waitForFunction(
    (title) => document.querySelector(".inbox [aria-current=true] strong")?.textContent === title,
    second,
  );
  assert.deepEqual(
    updates.map(({ body }) => body.reviewStatus),
    ["approved", "rejected", "pending"],
  );
  assert.equal(new Set(updates.map(({ key }) => key)).size, 3);
  await close();
});

test("review inbox leaves out what the caller may not read, and counts it", async () => {
  const { page, close } = await site.current.open("dashboard");
  let [readable, unread] = [0, 0];
  await page.route(/reviewStatus=pending/, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    for (const memory of json.data.slice(0, 2)) memory.title = null;
    unread = json.data.filter((/** @type {{ title: string | null }} */ { title }) => title === null).length;
    readable = json.data.length - unread;
    await route.fulfill({ response, json });
  });
  await page.getByRole("navigation").getByRole("link", { name: "Review" }).click();
  await page.locator(".inbox [aria-current=true]").waitFor();
  await page.getByText(`${unread} memories await review by others`).waitFor();
  assert.ok(readable > 0);
  assert.equal(await page.locator(".inbox li").count(), readable);
  await close();
});
