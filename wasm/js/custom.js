// Entry point for a module from elsewhere: from a bundler, a cache, or compiled ahead.

import { loaded, setSource } from "./module.js";

/** Sets the source of the module, and loads it. */
export async function initialise(source) {
  setSource(() => source);
  await loaded();
}

export * from "./index.js";
