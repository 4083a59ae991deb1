// Runs in Deno: increments the number at a key repeatedly, each time with a read and a commit.

import { SqliteStore } from "../../pkg/stores/sqlite.js";

const [path, times] = Deno.args;
const key = new TextEncoder().encode("key");
const store = new SqliteStore(path);
for (let left = Number(times); left > 0; ) {
  const [[found]] = await store.read([{ type: "keys", keys: [key] }]);
  const number = found ? Number(new TextDecoder().decode(found.value)) : 0;
  const value = new TextEncoder().encode(String(number + 1));
  const checks = [{ key, version: found?.version ?? null }];
  if ((await store.commit(checks, [{ type: "put", key, value }])) !== null) left--;
}
store.close();
