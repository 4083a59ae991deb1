// Caches the page and the package for offline use.

const CACHE = "knowledge-demo-2";
const PACKAGE = "../../pkg";
const FILES = [
  "./",
  "index.html",
  "app.js",
  "style.css",
  ...[
    "bridge.js",
    "deliveries.js",
    "error.js",
    "index.js",
    "knowledge.js",
    "knowledge_bg.wasm",
    "module.js",
    "operations.js",
    "provisioning.js",
    "service.js",
    "stores/counter.js",
    "stores/revision.js",
    "stores/indexeddb.js",
    "web.js",
  ].map((name) => `${PACKAGE}/${name}`),
];

addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
  skipWaiting();
});

addEventListener("activate", (event) => event.waitUntil(Promise.all([forgetOthers(), clients.claim()])));

/** Deletes the caches of earlier versions of the demo. */
async function forgetOthers() {
  const others = (await caches.keys()).filter((name) => name.startsWith("knowledge-demo-") && name !== CACHE);
  await Promise.all(others.map((name) => caches.delete(name)));
}

/** Returns the response of the network, or the cached one if the network fails. */
async function answer(request) {
  try {
    const response = await fetch(request);
    if (response.ok) await (await caches.open(CACHE)).put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await caches.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}

addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(answer(event.request));
});
