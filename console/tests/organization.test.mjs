// Tests of roles, members and the audit log.

import assert from "node:assert/strict";
import { test } from "node:test";

import { settled } from "./support/browser.mjs";
import { useSite } from "./support/site.mjs";

const site = useSite();

test("role is created, edited, deactivated and deleted", async () => {
  const { page, close } = await site.current.open("roles");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "New role" }).click();
  await dialog.getByLabel("Name").fill("Night shift");
  await dialog.getByLabel("Slug").fill("auditor");
  await dialog.getByLabel("memory:share").selectOption("allow");
  await dialog.getByLabel("chat:write").selectOption("deny");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText("This name is taken").waitFor();
  await dialog.getByLabel("Slug").fill("night-shift");
  await dialog.getByRole("button", { name: "Create" }).click();
  const card = page.locator(".card", { has: page.getByRole("heading", { name: "Night shift" }) });
  await dialog.waitFor({ state: "hidden" });
  assert.match(await card.innerText(), /Also allows\s+memory:share\s+Denies\s+chat:write/);

  await card.getByRole("button", { name: "Edit" }).click();
  assert.equal(await dialog.getByLabel("memory:share").inputValue(), "allow");
  await dialog.getByLabel("Description").fill("From ten to six.");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  await card.getByText("From ten to six.").waitFor();
  await card.getByRole("button", { name: "Deactivate" }).click();
  await card.getByText("inactive").waitFor();
  await card.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await card.waitFor({ state: "detached" });
  await close();
});

test("role with holders is deleted once they get another", async () => {
  const { page, close } = await site.current.open("roles");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Delete Auditor" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.getByText(/^Held by 2 members;/).waitFor();
  await dialog.getByLabel("Its holders become").selectOption("viewer");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "Auditor", exact: true }).waitFor({ state: "detached" });
  await close();
});

test("role that somebody else changed is not overwritten", async () => {
  const { page, close } = await site.current.open("roles");
  const other = await site.current.open("roles");
  for (const { page: one } of [{ page }, other])
    await one.getByRole("button", { name: "Edit Knowledge curator" }).click();
  for (const [one, text] of /** @type {const} */ ([
    [other.page, "theirs"],
    [page, "mine"],
  ])) {
    await one.getByRole("dialog").getByLabel("Description").fill(text);
    await one.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    if (text === "theirs") await one.getByText("theirs").waitFor();
  }
  await page.getByRole("dialog").getByText("Somebody else changed it meanwhile").waitFor();
  await close();
  await other.close();
});

test("member is added, edited, assigned and removed", async () => {
  const { page, close } = await site.current.open("members");
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Add member" }).click();
  await dialog.getByLabel("Name").fill("Noor Haddad");
  await dialog.getByLabel("Handle").fill("noor");
  await dialog.getByLabel("Teams").fill("platform, support");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  const row = page.getByRole("row", { name: /Noor Haddad/ });
  await dialog.waitFor({ state: "hidden" });
  assert.match(await row.innerText(), /member\s+platform\s+support/);

  await row.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Role in the organisation").selectOption("viewer");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "hidden" });
  assert.match(await row.innerText(), /viewer/);
  await row.getByRole("button", { name: "Workspaces of" }).click();
  await dialog.getByLabel("Role", { exact: true }).selectOption("admin");
  await dialog.getByRole("button", { name: "Assign" }).click();
  await dialog.waitFor({ state: "hidden" });
  await row.getByRole("button", { name: "Workspaces of" }).click();
  await dialog.locator("dd", { hasText: "admin" }).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "hidden" });

  await row.getByRole("button", { name: "Remove" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await row.waitFor({ state: "detached" });
  await close();
});

test("member keeps a role that the page could not read", async () => {
  const { page, close } = await site.current.open("account");
  await page.route("**/custom-roles", (route) => route.fulfill({ status: 500 }));
  await page.reload();
  await page.getByRole("link", { name: "Members" }).click();
  // Its name is not known, and neither is it among the roles to choose from.
  const row = page.getByRole("row", { name: /role [0-9a-f]{8}/ }).first();
  await row.getByRole("button", { name: "Edit" }).click();
  const role = page.getByRole("dialog").getByLabel("Role in the organisation");
  assert.match(await role.inputValue(), /^[0-9a-f]{8}-/);
  await close();
});

test("audit log filters by address and shows before and after", async () => {
  const { page, close } = await site.current.open("audit");
  await page.getByLabel("Action").fill("role.create");
  await page.keyboard.press("Enter");
  await page.waitForURL(/action=role.create/);
  // The address changes before the entries do.
  const others = page.locator(".entry-action", { hasNotText: "role.create" });
  await others.first().waitFor({ state: "detached" });
  await settled(page);
  const actions = await page.locator(".entry-action").allInnerTexts();
  assert.deepEqual([...new Set(actions)], ["role.create"]);
  await page.locator("summary").first().click();
  await page
    .getByRole("cell", { name: "viewer" })
    .or(page.getByRole("cell", { name: "member" }))
    .first()
    .waitFor();
  await page.getByRole("link", { name: "All entries about this role" }).first().click();
  await page.waitForURL(/resource_kind=role&resource_id=/);
  await page.getByLabel("From").fill("2020-01-01");
  await page.getByLabel("Before").fill("2020-01-02");
  await page.getByText("Nothing in the log matches.").waitFor();
  await close();
});
