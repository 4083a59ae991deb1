// Runs in workerd: objects of one isolate, which share a module. One of them makes it panic while
// another waits for it.

import { DurableObject } from "cloudflare:workers";

import { DurableObjectStore } from "./stores/durable-object.js";
import { panic } from "./testing.js";
import { KnowledgeService } from "./workerd.js";

/** Events in this isolate. */
const seen = new Set();

async function until(event) {
  while (!seen.has(event)) await scheduler.wait(1);
}

/** A store that holds back the read of `/waits` until after the panic. */
class HeldStore extends DurableObjectStore {
  isHeld = false;
  async read(reads) {
    if (this.isHeld) {
      seen.add("waiting");
      await until("panicked");
      this.isHeld = false;
    }
    return super.read(reads);
  }
}

export class Trial extends DurableObject {
  #store = new HeldStore(this.ctx.storage);
  #service;

  async fetch(request) {
    const sealingKey = new Uint8Array(32);
    this.#service ??= await KnowledgeService.open(this.#store, { sealingKey });
    const { pathname } = new URL(request.url);
    if (pathname === "/panic") {
      await until("waiting");
      const error = await panic("on purpose").catch((error) => error);
      seen.add("panicked");
      return new Response(error.code);
    }
    // The token is unknown, but the service looks it up in the store.
    this.#store.isHeld = pathname === "/waits";
    const url = new URL("/v1/sources", request.url);
    const token = `wkt_${"0".repeat(32)}_${"A".repeat(43)}`;
    return this.#service.fetch(new Request(url, { headers: { authorization: `Bearer ${token}` } }));
  }
}

export default {
  fetch(request, env) {
    const { searchParams } = new URL(request.url);
    return env.TRIAL.get(env.TRIAL.idFromName(searchParams.get("object"))).fetch(request);
  },
};
