// Prints what each file of the package weighs, as it is and as a server would send it, and the digest of the module, by
// which two builds are compared. Fails where the module is larger than it may be.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [, , directory, module] = process.argv;
/**
 * What the module may weigh in gzip, which is how most hosts count: a little more than it does, so that growth is noticed.
 * The goal is 160 kB; what takes the room is said in the package's README.
 */
const MODULE_GZIP_BYTES_MAX = 640_000;

const kilobytes = (bytes) => (bytes / 1000).toFixed(1).padStart(9);

console.log(`${"kB".padEnd(32)}${"raw".padStart(9)}${"gzip".padStart(9)}${"brotli".padStart(9)}`);
const total = [0, 0, 0];
let moduleGzipBytes = Infinity;
const names = readdirSync(directory, { recursive: true }).filter((name) => /\.(wasm|js)$/.test(name));
for (const name of names.sort()) {
  const bytes = readFileSync(join(directory, name));
  const gzip = gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION });
  const sizes = [bytes.length, gzip.length, brotliCompressSync(bytes).length];
  sizes.forEach((size, column) => (total[column] += size));
  console.log(name.padEnd(32) + sizes.map(kilobytes).join(""));
  if (name === module) moduleGzipBytes = gzip.length;
}
console.log("all".padEnd(32) + total.map(kilobytes).join(""));
const digest = createHash("sha256").update(readFileSync(join(directory, module)));
console.log(`sha256 of ${module}: ${digest.digest("hex")}`);

if (moduleGzipBytes > MODULE_GZIP_BYTES_MAX) {
  console.error(`${module} has ${moduleGzipBytes} bytes in gzip; at most ${MODULE_GZIP_BYTES_MAX} are allowed`);
  process.exit(1);
}
