// The files that a server embeds, and the form in which it does.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));
const NOT_SERVED = /^\.|^(dev|node_modules|tests)\/|\.d\.ts$|\.json$|\.md$/;
/** Block comments, and comments on lines of their own; neither occurs in a text of the console. */
const COMMENTS = /\/\*(?:(?!\*\/)[\s\S])*\*\/ ?|^[ \t]*\/\/.*\n/gm;
/** Blank lines, and the indentation of the others. */
const INDENTATION = /^\s+/gm;

/** Returns the paths of the files that are served. */
export const servedPaths = () =>
  readdirSync(ROOT, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length))
    .filter((path) => !NOT_SERVED.test(path));

/**
 * Reads a file as it is served: own texts without comments and indentation.
 * @param {string} path
 */
export function readServed(path) {
  const content = readFileSync(join(ROOT, path));
  if (path.startsWith("vendor/") || !/\.(css|html|js)$/.test(path)) return content;
  return Buffer.from(content.toString().replace(COMMENTS, "").replace(INDENTATION, ""));
}
