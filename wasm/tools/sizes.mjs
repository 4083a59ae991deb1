// Prints the size of each file of the package, raw and compressed, and the digest of the module, by
// which two builds are compared. Fails if the module exceeds its limit.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [, , directory, module] = process.argv;
/**
 * Maximum size of the module in gzip, which most hosts measure. It is slightly above the current
 * size, to detect growth. The goal is 160 kB; the package's README has the shares of the parts.
 */
const MODULE_GZIP_BYTES_MAX = 995_000;

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
  console.error(`${module} has ${moduleGzipBytes} bytes in gzip; it must have at most ${MODULE_GZIP_BYTES_MAX}`);
  process.exit(1);
}
