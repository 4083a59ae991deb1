// Entry point for Node.js: the module is read from its file and compiled.

import { readFile } from "node:fs/promises";

import { setSource } from "./module.js";

setSource(async () => WebAssembly.compile(await readFile(new URL("./knowledge_bg.wasm", import.meta.url))));

export * from "./index.js";
