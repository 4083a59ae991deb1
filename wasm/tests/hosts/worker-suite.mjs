// Serves the package in workerd, in a Durable Object. `/seed` seeds it for the HTTP suite,
// and returns the fixture.
//
// The testing module only seeds: the suite runs against the published package.

import "./pkg-testing/workerd.js";
import { DurableObject } from "cloudflare:workers";

import { DISPATCH_PATH, dispatch } from "./dispatch.js";
import { KnowledgeService } from "./pkg/workerd.js";
import { DurableObjectStore } from "./pkg/stores/durable-object.js";
import { seed } from "./pkg-testing/testing.js";

const OPTIONS = { sealingKey: btoa("k".repeat(32)) };

export class Trial extends DurableObject {
  #store;
  #service;

  constructor(ctx, env) {
    super(ctx, env);
    // In the constructor, because an idle object is evicted and constructed again.
    ctx.blockConcurrencyWhile(async () => {
      this.#store = new DurableObjectStore(ctx.storage);
      this.#service = await KnowledgeService.open(this.#store, OPTIONS);
    });
  }

  async fetch(request) {
    const { origin, pathname } = new URL(request.url);
    if (pathname === "/seed") {
      const fixture = await seed(this.#store, JSON.stringify(OPTIONS));
      return Response.json({ ...fixture, base_url: origin, dispatch_path: DISPATCH_PATH });
    }
    if (pathname === DISPATCH_PATH) return dispatch(this.#service, request);
    const response = await this.#service.fetch(request);
    // Cloudflare's network adds this header; standalone workerd does not.
    response.headers.set("date", new Date().toUTCString());
    return response;
  }
}

export default {
  fetch(request, env) {
    return env.TRIAL.get(env.TRIAL.idFromName("trial")).fetch(request);
  },
};
