// Entry point for browsers, bundlers and Deno: the module is fetched from beside this file.

import { setSource } from "./module.js";

setSource(() => new URL("./knowledge_bg.wasm", import.meta.url));

export * from "./index.js";
