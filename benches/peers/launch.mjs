// Starts PostgreSQL in a temporary directory, with so many memories, and the service over it:
//
//   node launch.mjs MEMORIES
//
// It prints the address of the service, and the directory with the socket of PostgreSQL, where other
// databases can be created. Everything ends with its standard input.
import cluster from "node:cluster";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { create } from "./server.mjs";

/** Processes of the service, and connections of each to PostgreSQL. */
const WORKERS = 2;
const CONNECTIONS = 8;
/** Settings of PostgreSQL other than its defaults, which sync every commit. */
const SETTINGS = {
  listen_addresses: "",
  shared_buffers: "1GB",
  // No checkpoint disturbs a measurement.
  max_wal_size: "4GB",
  checkpoint_timeout: "1h",
  wal_compression: "lz4",
  default_toast_compression: "lz4",
  jit: "off",
};
/** Directory of the versions of PostgreSQL in Debian. */
const VERSIONS = "/usr/lib/postgresql";
/** Time limit of the start of PostgreSQL. */
const START_MS_MAX = 30_000;

if (cluster.isPrimary) await launch(process.argv[2]);
else await serve();

async function serve() {
  const app = create({ socket: process.env.PEER_SOCKET, connections: CONNECTIONS });
  await app.listen({ host: "127.0.0.1", port: 0 });
}

async function launch(memories) {
  const directory = mkdtempSync(join(tmpdir(), "peer-"));
  let postgres;
  let isEnding = false;
  const end = async (code) => {
    if (isEnding) return;
    isEnding = true;
    for (const worker of Object.values(cluster.workers)) worker.process.kill("SIGKILL");
    if (postgres && postgres.exitCode === null) {
      const exit = once(postgres, "exit");
      postgres.kill("SIGQUIT");
      await exit;
    }
    // Some of PostgreSQL's processes may outlive the first one for a moment.
    rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
    process.exit(code);
  };
  process.stdin.resume().once("end", () => end(0));
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => end(1));
  try {
    postgres = startPostgres(directory);
    postgres.once("exit", () => end(1));
    await load(directory, memories);
    const address = await startWorkers(directory, () => end(1));
    console.log(`${address} ${directory}`);
  } catch (error) {
    console.error(error);
    await end(1);
  }
}

/** Returns the path of a program of PostgreSQL, of its newest version. */
function program(name) {
  const [newest] = readdirSync(VERSIONS).sort((a, b) => b - a);
  return join(VERSIONS, newest, "bin", name);
}

function run(name, args, options) {
  execFileSync(program(name), args, { stdio: ["ignore", "ignore", "inherit"], ...options });
}

function startPostgres(directory) {
  const data = join(directory, "data");
  // PostgreSQL refuses to run as root.
  const user = process.getuid() === 0 ? userOf("postgres") : {};
  if (user.uid) chownSync(directory, user.uid, user.gid);
  const options = { ...user, cwd: directory, stdio: "ignore" };
  const init = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"];
  run("initdb", [...init, "-D", data], options);
  const settings = Object.entries({ ...SETTINGS, unix_socket_directories: directory });
  const flags = settings.flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  return spawn(program("postgres"), ["-D", data, ...flags], options);
}

/** Waits until PostgreSQL listens, and loads the data. */
async function load(directory, memories) {
  const deadline = Date.now() + START_MS_MAX;
  for (;;) {
    try {
      run("pg_isready", ["-q", "-h", directory]);
      break;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await setTimeout(50);
    }
  }
  const variables = ["ON_ERROR_STOP=1", `memories=${memories}`].flatMap((one) => ["-v", one]);
  const paths = ["schema.sql", "seed.sql"].map((file) => join(import.meta.dirname, file));
  const files = paths.flatMap((path) => ["-f", path]);
  run("psql", ["-qX", "-h", directory, "-U", "postgres", ...variables, ...files]);
}

function userOf(name) {
  const read = (option) => Number(execFileSync("id", [option, name], { encoding: "utf8" }));
  return { uid: read("-u"), gid: read("-g") };
}

async function startWorkers(directory, onExit) {
  cluster.on("exit", onExit);
  let address;
  for (let number = 0; number < WORKERS; number += 1) {
    cluster.fork({ PEER_SOCKET: directory });
    [, address] = await once(cluster, "listening");
  }
  return `${address.address}:${address.port}`;
}
