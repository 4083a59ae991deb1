// An assistant with the official client of the Model Context Protocol, which has a person sign in.
// The flow is the client's own, from the challenge of the server to the access token.
//
// Reads one line of JSON: the `url` of the endpoint, the address `server` to which its origin
// leads, the `clientId` and `redirectUri` that the provider knows, the `account` of the person, and a
// `query`. Prints one line: the `challenge` to the client without a token and the
// `error` with which it stops, the parameters of its requests for the `authorization` and the
// `token`, the `header` and the `claims` of the access token, and what the client sees with it.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.env.TEST_NODE_PACKAGES}/`);
const load = (name) => import(pathToFileURL(packages.resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");

const line = await new Promise((resolve) => {
  createInterface({ input: process.stdin }).once("line", resolve);
});
const { url, server, clientId, redirectUri, account, query } = JSON.parse(line);
const seen = {};

/** Sends a request, to the server if it is for the origin of the endpoint. */
async function reach(target, init) {
  const { origin, pathname, search } = new URL(target);
  const isServer = origin === new URL(url).origin;
  const response = await fetch(isServer ? `${server}${pathname}${search}` : target, init);
  const { status, headers } = response;
  if (status === 401) seen.challenge ??= { status, header: headers.get("www-authenticate") };
  if (init?.body instanceof URLSearchParams) seen.token = Object.fromEntries(init.body);
  return response;
}

/** A client that is registered at the provider already. It keeps everything in memory. */
class Registration {
  redirectUrl = redirectUri;
  clientMetadata = { client_name: "Assistant", redirect_uris: [redirectUri] };
  #kept = { state: crypto.randomUUID() };

  state = () => this.#kept.state;
  clientInformation = ({ issuer }) => ({ client_id: clientId, issuer });
  tokens = () => this.#kept.tokens;
  saveTokens = (tokens) => void (this.#kept.tokens = tokens);
  codeVerifier = () => this.#kept.verifier;
  saveCodeVerifier = (verifier) => void (this.#kept.verifier = verifier);
  discoveryState = () => this.#kept.discovery;
  saveDiscoveryState = (discovery) => void (this.#kept.discovery = discovery);
  redirectToAuthorization = (page) => void (this.page = page);
}

/** Signs the person in on the pages of the provider, and returns the URL that they lead back to. */
async function signIn(page) {
  const cookies = new Map();
  let next = page;
  for (let pages = 0; pages < 10; pages += 1) {
    const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
    const response = await fetch(next, { headers: { cookie }, redirect: "manual" });
    for (const kept of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(kept);
      cookies.set(name, value);
    }
    next = new URL(response.headers.get("location"), next);
    if (next.href.startsWith(redirectUri)) return next;
    if (next.pathname.startsWith("/interaction/")) next.searchParams.set("account", account);
  }
  throw new Error(`the provider never ends: ${next}`);
}

const authProvider = new Registration();
const connection = () =>
  new StreamableHTTPClientTransport(new URL(url), { authProvider, fetch: reach });
const assistant = () =>
  new Client({ name: "test", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });

const refused = connection();
const connected = assistant().connect(refused);
seen.error = await connected.then(() => null, (error) => error.constructor.name);
seen.authorization = Object.fromEntries(authProvider.page.searchParams);
const { searchParams: callback } = await signIn(authProvider.page);
if (callback.get("state") !== authProvider.state()) throw new Error("the state is another one");
await refused.finishAuth(callback);

const parts = authProvider.tokens().access_token.split(".").slice(0, 2);
[seen.header, seen.claims] = parts.map((part) => JSON.parse(Buffer.from(part, "base64url")));
const client = assistant();
await client.connect(connection());
seen.version = client.getNegotiatedProtocolVersion();
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
const found = await client.callTool({ name: "recall", arguments: { query } });
seen.recallId = found.structuredContent.recall_id;
seen.titles = found.structuredContent.results.map((memory) => memory.title);
console.log(JSON.stringify(seen));
process.exit(0);
