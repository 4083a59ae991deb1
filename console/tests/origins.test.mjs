// Tests of pages of other origins in the browser of a member who is signed in: none of them writes.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { launch, signIn } from "./support/browser.mjs";
import { startDemo, WORKSPACE } from "./support/demo.mjs";

/** @import { AddressInfo } from "node:net" */
/** @import { Server } from "node:http" */
/** @import { Browser } from "playwright-core" */
/** @typedef {{ method: string, path: string, status: number, headers: import("node:http").IncomingHttpHeaders }} Exchange */

const SESSION = "service_session";
/** Path that sets the session with the attributes that follow. */
const SIGN_IN = "/sign-in?";
/** Attributes of the cookie of the server, and of one that an application sets for all sites. */
const LAX = "SameSite=Lax";
const NONE = "SameSite=None;Secure";
/** Time in which a request reaches the server, in milliseconds. */
const PATIENCE_MS = 10_000;
const ROLE = { name: "Stolen", slug: "stolen", base_role: "viewer", description: "" };

/**
 * Names that lead to this machine. To browsers, an address without TLS is only trustworthy if it is
 * one of a loopback interface: requests to others have no `Sec-Fetch-Site`.
 */
const NAMES = ["--host-resolver-rules=MAP *.test 127.0.0.1", "--disable-features=HttpsUpgrades"];

/** @type {Awaited<ReturnType<typeof startDemo>>} */
let demo;
/** @type {Browser} */
let browser;
/** @type {Server} */
let recorder;
/** @type {Server} */
let others;
/** Requests that have reached the server. @type {Exchange[]} */
const exchanges = [];
/** Session of an owner. */
let session = "";
/** Path of the custom roles. */
let roles = "";

/** @param {Server} server */
const port = (server) => /** @type {AddressInfo} */ (server.address()).port;

/** @param {Server} server */
const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));

/** Creates a proxy in front of the demo that records what reaches it, and sets the session at one path. */
function createRecorder() {
  return createServer((incoming, outgoing) => {
    const { method = "", headers, url: path = "/" } = incoming;
    if (path.startsWith(SIGN_IN)) {
      const cookie = `${SESSION}=${session}; Path=/; HttpOnly; ${path.slice(SIGN_IN.length)}`;
      outgoing.writeHead(200, { "content-type": "text/html", "set-cookie": cookie }).end();
      return;
    }
    const forwarded = request(new URL(path, demo.url), { method, headers }, (response) => {
      const status = response.statusCode ?? 502;
      exchanges.push({ method, path, status, headers });
      outgoing.writeHead(status, response.headers);
      response.pipe(outgoing);
    });
    forwarded.on("error", () => outgoing.destroy());
    incoming.pipe(forwarded);
  });
}

before(async () => {
  demo = await startDemo();
  recorder = createRecorder();
  others = createServer((incoming, outgoing) => {
    const policy = incoming.url === "/quiet" ? { "referrer-policy": "no-referrer" } : {};
    outgoing.writeHead(200, { "content-type": "text/html", ...policy }).end("<!doctype html><title>Other</title>");
  });
  await Promise.all([listen(recorder), listen(others)]);
  browser = await launch(NAMES);
  const context = await browser.newContext();
  await signIn(await context.newPage(), demo.link());
  session = (await context.cookies()).find(({ name }) => name === SESSION)?.value ?? "";
  const answer = await fetch(`${demo.url}/auth/session`, { headers: { cookie: `${SESSION}=${session}` } });
  roles = `/v1/orgs/${(await answer.json()).organization.slug}/custom-roles`;
  await context.close();
});

after(async () => {
  await browser.close();
  for (const server of [recorder, others]) {
    server.close();
    server.closeAllConnections();
  }
  await demo.stop();
});

/**
 * Writes that a page can make of another origin without its consent, by what the page does. The
 * last one leaves the page.
 * @type {Record<string, (target: { url: string, role: object }) => unknown>}
 */
const WRITES = {
  fetch: ({ url, role }) => {
    const body = JSON.stringify(role);
    return fetch(url, { method: "POST", credentials: "include", body }).catch(() => null);
  },
  "fetch without CORS": ({ url, role }) => {
    const body = JSON.stringify(role);
    return fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body }).then(() => null);
  },
  beacon: ({ url, role }) => navigator.sendBeacon(url, JSON.stringify(role)),
  form: ({ url, role }) => {
    const form = document.createElement("form");
    Object.assign(form, { method: "post", action: url, enctype: "text/plain" });
    const field = document.createElement("input");
    // The body is JSON, with the equals sign in the description.
    const [name = "", value = ""] = JSON.stringify({ ...role, description: "|" }).split("|");
    Object.assign(field, { type: "hidden", name, value });
    form.append(field);
    document.body.append(form);
    form.submit();
  },
};

/**
 * Opens a page of an origin, in a browser with the session at an address of the server.
 * @param {string} origin
 * @param {string} server
 * @param {string} [attributes] Attributes of its cookie.
 */
async function openOther(origin, server, attributes = LAX) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(server + SIGN_IN + attributes);
  await page.goto(origin);
  return page;
}

/**
 * Waits for a request that has reached the server.
 * @param {string} method
 * @returns {Promise<Exchange>}
 */
async function reached(method) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end;) {
    const found = exchanges.find((exchange) => exchange.method === method && exchange.path.startsWith(roles));
    if (found) return found;
    await setTimeout(20);
  }
  throw new Error(`no ${method} has reached the server`);
}

/** Returns the slugs of the custom roles, and the identifier of one. */
async function readRoles() {
  const answer = await fetch(demo.url + roles, { headers: { cookie: `${SESSION}=${session}` } });
  const { data } = await answer.json();
  return { slugs: data.map((/** @type {{ slug: string }} */ role) => role.slug), id: data[0].id };
}

/** Returns true if the request says which page sent it. */
const isTold = (/** @type {Exchange} */ { headers }) =>
  headers["sec-fetch-site"] !== undefined || headers.origin !== undefined;

const hasSession = (/** @type {Exchange} */ { headers }) => headers.cookie?.includes(SESSION) ?? false;

/** Addresses of the server, and pages of other origins on the same site, which the cookie is sent for. */
const SAME_SITE = [
  ["127.0.0.1", "127.0.0.1"],
  ["knowledge.test", "knowledge.test"],
  ["knowledge.test", "other.knowledge.test"],
];

for (const [host, other] of SAME_SITE) {
  for (const path of ["/", "/quiet"]) {
    test(`writes are refused: ${other}${path} to ${host}`, async () => {
      const server = `http://${host}:${port(recorder)}`;
      const page = await openOther(`http://${other}:${port(others)}${path}`, server);
      for (const [write, run] of Object.entries(WRITES)) {
        exchanges.length = 0;
        await page.evaluate(run, { url: server + roles, role: ROLE });
        const exchange = await reached("POST");
        assert.ok(hasSession(exchange) && isTold(exchange), `${write}: ${JSON.stringify(exchange)}`);
        assert.equal(exchange.status, 403, write);
      }
      assert.ok(!(await readRoles()).slugs.includes(ROLE.slug));
      await page.context().close();
    });
  }

  test(`write that needs a preflight is not sent: ${other} to ${host}`, async () => {
    exchanges.length = 0;
    const server = `http://${host}:${port(recorder)}`;
    const page = await openOther(`http://${other}:${port(others)}`, server);
    const { id } = await readRoles();
    const outcomes = await page.evaluate(
      async ({ url, role, one }) => {
        const json = { "content-type": "application/json" };
        const write = async (/** @type {string} */ at, /** @type {RequestInit} */ init) => {
          const sent = fetch(at, { credentials: "include", ...init });
          return sent.then(
            () => "answered",
            () => "refused",
          );
        };
        return [
          await write(url, { method: "POST", headers: json, body: JSON.stringify(role) }),
          await write(one, { method: "PATCH", headers: json, body: "{}" }),
          await write(one, { method: "DELETE" }),
        ];
      },
      { url: server + roles, role: ROLE, one: `${server}${roles}/${id}` },
    );
    assert.deepEqual(outcomes, ["refused", "refused", "refused"]);
    // A browser also asks for the icon of a page, in its own time.
    const asked = exchanges.filter(({ path }) => path.startsWith(roles));
    assert.deepEqual([...new Set(asked.map(({ method }) => method))], ["OPTIONS"]);
    await page.context().close();
  });

  test(`navigation reads, and shows nothing to the page: ${other} to ${host}`, async () => {
    exchanges.length = 0;
    const server = `http://${host}:${port(recorder)}`;
    const page = await openOther(`http://${other}:${port(others)}`, server);
    await page.goto(server + roles, { referer: page.url() });
    assert.equal((await reached("GET")).status, 200);
    const back = await openOther(`http://${other}:${port(others)}`, server);
    const read = await back.evaluate(
      (url) =>
        fetch(url, { credentials: "include" }).then(
          () => true,
          () => false,
        ),
      server + roles,
    );
    assert.equal(read, false);
    await Promise.all([page.context().close(), back.context().close()]);
  });
}

for (const attributes of [LAX, NONE]) {
  test(`writes of another site are refused, ${attributes}`, async () => {
    const server = `http://127.0.0.1:${port(recorder)}`;
    const page = await openOther(`http://localhost:${port(others)}`, server, attributes);
    /** @type {string[]} */
    const withSession = [];
    for (const [write, run] of Object.entries(WRITES)) {
      exchanges.length = 0;
      await page.evaluate(run, { url: server + roles, role: ROLE });
      const exchange = await reached("POST");
      assert.ok(isTold(exchange), write);
      assert.equal(exchange.status, hasSession(exchange) ? 403 : 401, write);
      if (hasSession(exchange)) withSession.push(write);
    }
    // A browser may also keep cookies from requests inside pages of other sites.
    assert.equal(withSession.includes("form"), attributes === NONE);
    assert.ok(attributes === NONE || withSession.length === 0, withSession.join());
    assert.ok(!(await readRoles()).slugs.includes(ROLE.slug));
    await page.context().close();
  });
}

for (const host of ["127.0.0.1", "knowledge.test"]) {
  test(`page of the server writes: ${host}`, async () => {
    exchanges.length = 0;
    const server = `http://${host}:${port(recorder)}`;
    const page = await openOther(`${server}/`, server);
    const { id } = await readRoles();
    const status = await page.evaluate(async (url) => {
      const headers = { "content-type": "application/json" };
      return (await fetch(url, { method: "PATCH", headers, body: "{}" })).status;
    }, `${roles}/${id}`);
    assert.ok(isTold(await reached("PATCH")));
    assert.equal(status, 200);
    await page.context().close();
  });
}

test("program writes without the headers of browsers", async () => {
  const { id } = await readRoles();
  const headers = { cookie: `${SESSION}=${session}`, "content-type": "application/json" };
  const sent = request(`${demo.url}${roles}/${id}`, { method: "PATCH", headers });
  const status = new Promise((resolve, reject) => {
    sent.on("response", (response) => resolve(response.resume().statusCode)).on("error", reject);
  });
  sent.end("{}");
  assert.equal(await status, 200);
});

test("page works over plain HTTP in a local network", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const lan = `http://console.test:${port(recorder)}`;
  await signIn(page, demo.link().replace(demo.url, lan));
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await page.goto(`${lan}/#/${WORKSPACE}/import`);
  const line = JSON.stringify({ title: "From the local network", content: "Text." });
  const file = { name: "notes.jsonl", mimeType: "text/plain", buffer: Buffer.from(line) };
  await page.getByLabel("File of JSON lines").setInputFiles(file);
  await page.getByRole("button", { name: "Import 1 memory" }).click();
  await page.getByText("1 memory imported.").waitFor();
  await page.goto(`${lan}/#/${WORKSPACE}/keys`);
  await page.getByRole("button", { name: "New key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Of the local network");
  await dialog.getByLabel("Audience").fill("workspace:operations");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByText("Selected: copy it with the keyboard.").waitFor();
  assert.match(await page.evaluate(() => String(getSelection())), /^\S{20,}$/);
  await context.close();
});
