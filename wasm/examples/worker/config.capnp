# Configuration of standalone workerd: run `workerd serve config.capnp` in this directory, with the
# package built in ../../pkg. Data is in ./storage; SEALING_KEY, OPERATOR_TOKEN and, optionally,
# WEBHOOKS come from the environment.

using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "storage", disk = (path = "storage", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:8787", http = (), service = "main")],
);

const worker :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "knowledge-wasm", esModule = "export * from \"./knowledge-wasm/workerd.js\";"),
    (name = "knowledge-wasm/stores/durable-object", esModule = "export * from \"./durable-object.js\";"),
    (name = "knowledge-wasm/knowledge_bg.wasm", wasm = embed "../../pkg/knowledge_bg.wasm"),
    (name = "knowledge-wasm/bridge.js", esModule = embed "../../pkg/bridge.js"),
    (name = "knowledge-wasm/deliveries.js", esModule = embed "../../pkg/deliveries.js"),
    (name = "knowledge-wasm/error.js", esModule = embed "../../pkg/error.js"),
    (name = "knowledge-wasm/index.js", esModule = embed "../../pkg/index.js"),
    (name = "knowledge-wasm/knowledge.js", esModule = embed "../../pkg/knowledge.js"),
    (name = "knowledge-wasm/module.js", esModule = embed "../../pkg/module.js"),
    (name = "knowledge-wasm/operations.js", esModule = embed "../../pkg/operations.js"),
    (name = "knowledge-wasm/provisioning.js", esModule = embed "../../pkg/provisioning.js"),
    (name = "knowledge-wasm/service.js", esModule = embed "../../pkg/service.js"),
    (name = "knowledge-wasm/workerd.js", esModule = embed "../../pkg/workerd.js"),
    (name = "knowledge-wasm/stores/counter.js", esModule = embed "../../pkg/stores/counter.js"),
    (name = "knowledge-wasm/stores/revision.js", esModule = embed "../../pkg/stores/revision.js"),
    (name = "knowledge-wasm/stores/durable-object.js", esModule = embed "../../pkg/stores/durable-object.js"),
    (name = "knowledge-wasm/stores/sql.js", esModule = embed "../../pkg/stores/sql.js"),
  ],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [
    (className = "Organization", uniqueKey = "knowledge-organization", enableSql = true),
    (className = "Directory", uniqueKey = "knowledge-directory", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "storage"),
  bindings = [
    (name = "ORGANIZATION", durableObjectNamespace = "Organization"),
    (name = "DIRECTORY", durableObjectNamespace = "Directory"),
    (name = "SEALING_KEY", fromEnvironment = "SEALING_KEY"),
    (name = "OPERATOR_TOKEN", fromEnvironment = "OPERATOR_TOKEN"),
    (name = "WEBHOOKS", fromEnvironment = "WEBHOOKS"),
    (name = "PUBLIC_URL", text = "http://127.0.0.1:8787"),
  ],
);
