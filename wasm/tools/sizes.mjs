// Prints what each file of a directory weighs: as it is, and as a server would send it.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const directory = process.argv[2];
const kilobytes = (bytes) => (bytes.length / 1000).toFixed(1).padStart(9);

console.log(`${"kB".padEnd(24)}${"raw".padStart(9)}${"gzip".padStart(9)}${"brotli".padStart(9)}`);
for (const name of readdirSync(directory).filter((name) => /\.(wasm|js)$/.test(name))) {
  const bytes = readFileSync(join(directory, name));
  const gzip = gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION });
  const brotli = brotliCompressSync(bytes);
  console.log(name.padEnd(24) + kilobytes(bytes) + kilobytes(gzip) + kilobytes(brotli));
}
