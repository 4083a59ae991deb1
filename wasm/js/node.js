// Entry point for Node.js: the module is read from its file.

import { readFile } from "node:fs/promises";

import { setSource } from "./module.js";

setSource(() => readFile(new URL("./knowledge_bg.wasm", import.meta.url)));

export * from "./index.js";
