// Runs the conformance suite in workerd, inside a Durable Object over its storage.

import "./workerd.js";
import { DurableObject } from "cloudflare:workers";

import { DurableObjectStore } from "./stores/durable-object.js";
import { conformance } from "./testing.js";

/** An object with one database; dropping the tables gives a new store. */
export class Trial extends DurableObject {
  async fetch() {
    const { storage } = this.ctx;
    const report = await conformance({
      isDurable: true,
      open() {
        storage.sql.exec("DROP TABLE IF EXISTS entry");
        storage.sql.exec("DROP TABLE IF EXISTS version");
        return new DurableObjectStore(storage);
      },
      reopen: () => new DurableObjectStore(storage),
    });
    return Response.json(report);
  }
}

export default {
  fetch(request, env) {
    return env.TRIAL.get(env.TRIAL.idFromName("trial")).fetch(request);
  },
};
