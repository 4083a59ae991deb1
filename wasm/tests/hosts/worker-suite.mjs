// Runs in workerd: the service in a Durable Object. `/seed` seeds it for the HTTP suite of the server, and answers with the
// fixture.

import { KnowledgeService } from "./workerd.js";
import { DurableObject } from "cloudflare:workers";

import { DurableObjectStore } from "./stores/durable-object.js";
import { seed } from "./testing.js";

export class Trial extends DurableObject {
  #service;

  async fetch(request) {
    const { origin, pathname } = new URL(request.url);
    if (pathname === "/seed") {
      const options = { sealingKey: btoa("k".repeat(32)) };
      const store = new DurableObjectStore(this.ctx.storage);
      const fixture = await seed(store, JSON.stringify(options));
      this.#service = await KnowledgeService.open(store, options);
      return Response.json({ ...fixture, base_url: origin });
    }
    const response = await this.#service.fetch(request);
    // Cloudflare's network adds it; workerd by itself does not.
    response.headers.set("date", new Date().toUTCString());
    return response;
  }
}

export default {
  fetch(request, env) {
    return env.TRIAL.get(env.TRIAL.idFromName("trial")).fetch(request);
  },
};
