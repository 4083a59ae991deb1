// Tests of a network that is cut: nothing is done twice, and nothing is shown half done.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { test } from "node:test";

import { openPage, settled, signIn } from "./support/browser.mjs";
import { WORKSPACE } from "./support/demo.mjs";
import { useSite } from "./support/site.mjs";

/** @import { Page, Route } from "playwright-core" */

const site = useSite();
const BULK = "**/v1/memories/bulk";

/**
 * Loses the response to the next request at an address, after the server has handled it.
 * @param {Page} page
 * @param {string} address
 */
async function loseResponse(page, address) {
  await page.route(
    address,
    async (/** @type {Route} */ route) => {
      await route.fetch();
      await route.abort("connectionreset");
    },
    { times: 1 },
  );
}

/**
 * Starts a proxy that serves a server below a path.
 * @param {string} target
 * @param {string} prefix Path that ends with a slash.
 */
async function startProxy(target, prefix) {
  /** @type {string[]} */
  const strays = [];
  const server = createServer((incoming, outgoing) => {
    const { method, headers, url = "/" } = incoming;
    if (!url.startsWith(prefix)) {
      strays.push(url);
      outgoing.writeHead(404).end();
      return;
    }
    const address = new URL(url.slice(prefix.length - 1), target);
    const forwarded = request(address, { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}${prefix}`,
    /** Paths of requests outside the prefix. */
    strays,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/**
 * Opens the dialog in which the memories that are shown are relabelled.
 * @param {Page} page
 */
async function openRelabel(page) {
  await page.getByLabel("Select all that are shown").check();
  await page.getByRole("button", { name: "Relabel" }).click();
  await page.getByRole("dialog").getByLabel("Sensitivity").selectOption("restricted");
}

test("bulk update whose response is lost is replayed", async () => {
  const { page, close } = await site.current.open("memories?sensitivityLabel=public");
  /** @type {(string | undefined)[]} */
  const keys = [];
  /** @type {boolean[]} */
  const replays = [];
  page.on("request", (request) => request.url().endsWith("/bulk") && keys.push(request.headers()["idempotency-key"]));
  page.on("response", async (response) => {
    if (response.url().endsWith("/bulk")) replays.push((await response.json()).replayed);
  });
  await openRelabel(page);
  await loseResponse(page, BULK);
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /^Change/ })
    .click();
  await page.getByText(/of \d+ memories changed\.$/).waitFor();
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  assert.deepEqual(replays, [true]);
  await close();
});

test("bulk update that cannot be sent continues later with its key", async () => {
  const { page, context, close } = await site.current.open("memories?sensitivityLabel=internal");
  /** @type {Set<string | undefined>} */
  const keys = new Set();
  page.on("request", (request) => request.url().endsWith("/bulk") && keys.add(request.headers()["idempotency-key"]));
  await openRelabel(page);
  await context.setOffline(true);
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: /^Change/ }).click();
  await page.getByText("The server cannot be reached. Trying again").waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Close" }).first().isDisabled());
  assert.match(await dialog.locator(".progress").innerText(), /0 of \d+ answered/);
  await dialog.getByText("The server cannot be reached", { exact: true }).waitFor({ timeout: 40_000 });
  await dialog.getByText("Stopped: 0 of").waitFor();
  await context.setOffline(false);
  await dialog.getByRole("button", { name: "Continue" }).click();
  await dialog.getByText(/of \d+ memories changed\.$/).waitFor();
  assert.equal(keys.size, 1);
  await close();
});

test("list that could not be read again is read with its filter", async () => {
  const { page, close } = await site.current.open("memories");
  await page.route("**/memories?*", (route) => route.fulfill({ status: 500 }), { times: 1 });
  await page.getByLabel("Sensitivity").selectOption("confidential");
  await page.getByRole("button", { name: "Try again" }).click();
  // What was shown before stays until the page has arrived.
  await page.waitForFunction(() => {
    const rows = [...document.querySelectorAll("tbody tr")];
    return rows.length > 0 && rows.every((row) => row.textContent?.includes("confidential"));
  });
  await close();
});

test("page tries again at once when the network returns", async () => {
  const { page, context, close } = await site.current.open("dashboard");
  await context.setOffline(true);
  await page.getByRole("link", { name: "Memories", exact: true }).click();
  await page.getByText("Trying again").waitFor();
  await context.setOffline(false);
  await page.locator("tbody tr").first().waitFor();
  await page.getByText("Trying again").waitFor({ state: "detached" });
  await close();
});

test("creation whose response is lost happens once", async () => {
  const { page, close } = await site.current.open("members");
  /** @type {(string | undefined)[]} */
  const keys = [];
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().endsWith("/members"))
      keys.push(request.headers()["idempotency-key"]);
  });
  await page.getByRole("button", { name: "Add member" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Handle").fill("lost");
  await dialog.getByLabel("Name").fill("Lost Twice");
  await loseResponse(page, "**/members");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("row", { name: /Lost Twice/ }).waitFor();
  assert.equal(keys.length, 2);
  assert.ok(keys[0]);
  assert.equal(keys[0], keys[1]);
  await close();
});

test("creation of a secret whose response is lost is explained, not repeated", async () => {
  const { page, close } = await site.current.open("keys");
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Lost");
  await loseResponse(page, "**/mcp-keys");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText("It may or may not have been done.").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.reload();
  await settled(page);
  assert.equal(await page.getByRole("row", { name: /Lost/ }).count(), 1);
  await close();
});

test("import continues after the network was cut in its middle", async () => {
  const { page, context, close } = await site.current.open("import");
  const lines = Array.from({ length: 250 }, (_, index) => JSON.stringify({ title: `Note ${index}`, content: "Text." }));
  await page
    .getByLabel("File of JSON lines")
    .setInputFiles({ name: "notes.jsonl", mimeType: "text/plain", buffer: Buffer.from(lines.join("\n")) });
  let requests = 0;
  await page.route("**/ingest", async (route) => {
    requests += 1;
    if (requests === 2) {
      await route.fetch();
      await context.setOffline(true);
      await route.abort("connectionreset");
    } else {
      await route.continue();
    }
  });
  await page.getByRole("button", { name: "Import 250 memories" }).click();
  await page.getByText("Trying again").waitFor();
  assert.match(await page.locator(".progress").innerText(), /100 of 250 answered/);
  await context.setOffline(false);
  await page.getByText("250 memories imported.").waitFor();
  assert.match(await page.locator(".counts").innerText(), /Created\s+150\s+Updated\s+0\s+Unchanged\s+100/);
  await close();
});

test("review decision that fails stays in the inbox and says why", async () => {
  const { page, close } = await site.current.open("review");
  await page.locator(".inbox [aria-current=true]:focus").waitFor();
  const title = await page.locator(".inbox [aria-current=true] strong").innerText();
  await page.route(
    BULK,
    (route) =>
      route.fulfill({ status: 409, json: { error: "conflict", message: "concurrent modification", details: {} } }),
    { times: 1 },
  );
  await page.keyboard.press("a");
  const item = page.locator(".inbox li", { hasText: title }).first();
  await item.getByText("Not approved: Somebody else is changing the same things").waitFor();
  await page.keyboard.press("k");
  await page.keyboard.press("a");
  await page.getByText("1 decided").waitFor();
  await close();
});

test("review decision that was refused is sent again with a new key", async () => {
  const { page, close } = await site.current.open("review");
  await page.locator(".inbox [aria-current=true]:focus").waitFor();
  const title = await page.locator(".inbox [aria-current=true] strong").innerText();
  /** @type {(string | undefined)[]} */
  const keys = [];
  page.on("request", (request) => request.url().endsWith("/bulk") && keys.push(request.headers()["idempotency-key"]));
  await page.route(
    BULK,
    async (route) => {
      const { memoryIds } = route.request().postDataJSON();
      const error = { code: "forbidden", message: "you may not review this memory" };
      const results = [{ memoryId: memoryIds[0], ok: false, auditLogId: memoryIds[0], error }];
      const summary = { requested: 1, succeeded: 0, failed: 1 };
      await route.fulfill({ json: { operationId: memoryIds[0], replayed: false, summary, results } });
    },
    { times: 1 },
  );
  await page.keyboard.press("r");
  const item = page.locator(".inbox li", { hasText: title }).first();
  await item.getByText("Not rejected: you may not review this memory").waitFor();
  await page.keyboard.press("k");
  await page.keyboard.press("r");
  await page.getByText("1 decided").waitFor();
  assert.equal(keys.length, 2);
  assert.notEqual(keys[0], keys[1]);
  await close();
});

test("page below a path keeps its requests below it", async () => {
  const { demo, browser } = site.current;
  const proxy = await startProxy(demo.url, "/knowledge/");
  try {
    const { page, close } = await openPage(browser);
    await signIn(page, demo.link().replace(`${demo.url}/`, proxy.url));
    await page.goto(`${proxy.url}#/${WORKSPACE}/memories`);
    await settled(page);
    await page.getByLabel("Select all that are shown").waitFor();
    await page.reload();
    await page.getByLabel("Select all that are shown").waitFor();
    assert.deepEqual(proxy.strays, []);
    await close();
  } finally {
    proxy.close();
  }
});
