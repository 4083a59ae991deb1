// Assistants with the official clients of both generations, over HTTP and over standard input.
//
// Reads one line of JSON: `url`, `token`, `program` (a command and its arguments) and `query`. Prints
// for each client what it sees: the version, the names of the tools, what `recall` finds, the text of
// the first memory, and the error of a tool that refuses.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.env.TEST_NODE_PACKAGES}/`);
const load = (name) => import(pathToFileURL(packages.resolve(name)));

const modern = await load("@modelcontextprotocol/client");
const modernStdio = await load("@modelcontextprotocol/client/stdio");
const legacy = await load("@modelcontextprotocol/sdk/client/index.js");
const legacyHttp = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const legacyStdio = await load("@modelcontextprotocol/sdk/client/stdio.js");

const [line] = await new Promise((resolve) => {
  createInterface({ input: process.stdin }).once("line", (text) => resolve([text]));
});
const { url, token, program, query } = JSON.parse(line);
const [command, ...args] = program;
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const me = { name: "test", version: "1.0.0" };

/** Uses a client like an assistant, and prints what it sees. */
async function use(name, client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const found = await client.callTool({ name: "recall", arguments: { query } });
  const id = found.structuredContent.results[0]?.id;
  const memory = await client.callTool({ name: "fetch", arguments: { id } });
  const refused = await client.callTool({ name: "recall", arguments: { query, limit: 51 } });
  const seen = {
    client: name,
    version: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null,
    server: client.getServerVersion()?.name,
    tools: tools.map((tool) => tool.name),
    recallId: found.structuredContent.recall_id,
    titles: found.structuredContent.results.map((memory) => memory.title),
    text: memory.structuredContent.text,
    isError: refused.isError,
    error: refused.content[0].text,
  };
  console.log(JSON.stringify(seen));
  await client.close();
}

const negotiating = () => new modern.Client(me, { versionNegotiation: { mode: "auto" } });
const http = new modern.StreamableHTTPClientTransport(new URL(url), { requestInit });
await use("client over HTTP", negotiating(), http);
const stdio = new modernStdio.StdioClientTransport({ command, args });
await use("client over standard input", negotiating(), stdio);
const earlier = new legacyHttp.StreamableHTTPClientTransport(new URL(url), { requestInit });
await use("sdk over HTTP", new legacy.Client(me), earlier);
const earlierStdio = new legacyStdio.StdioClientTransport({ command, args });
await use("sdk over standard input", new legacy.Client(me), earlierStdio);
process.exit(0);
