// Runs the conformance suite over IndexedDB, in a browser.

import "/pkg-testing/web.js";
import { named } from "/pkg-testing/harnesses.js";
import { IndexedDbStore } from "/pkg-testing/stores/indexeddb.js";
import { conformance } from "/pkg-testing/testing.js";

globalThis.conformance = () =>
  conformance(named((name) => IndexedDbStore.open(name), (number) => `store-${number}`));
