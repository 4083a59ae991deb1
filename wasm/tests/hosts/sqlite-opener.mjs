// Runs in a worker of Deno: opens new databases, each at the same time as the other workers.

import { SqliteStore } from "../../pkg/stores/sqlite.js";

self.onmessage = ({ data: { arrived, workers, paths } }) => {
  const errors = [];
  for (const [round, path] of paths.entries()) {
    Atomics.add(arrived, round, 1);
    while (Atomics.load(arrived, round) < workers);
    try {
      new SqliteStore(path).close();
    } catch (error) {
      errors.push(error.message);
    }
  }
  self.postMessage(errors);
};
