// For who has the module from elsewhere: from a bundler, a cache, or compiled ahead.

import { loaded, setSource } from "./module.js";

/** Says where the module comes from, and loads it. */
export async function initialise(source) {
  setSource(() => source);
  await loaded();
}

export * from "./index.js";
