// Addresses of screens: `#/{workspace}/{screen}/{item}?{query}`.

/**
 * A place in the console.
 * @typedef {object} Route
 * @property {string} workspace Slug of the workspace.
 * @property {string} screen
 * @property {string} item Item of the screen, or an empty text.
 * @property {URLSearchParams} query Filters.
 */

/**
 * Parses the fragment of an address.
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [workspace = "", screen = "", item = ""] = path.split("/");
  return { workspace, screen, item, query: new URLSearchParams(query) };
}

/**
 * Builds the fragment of an address; empty filters are left out.
 * @param {{ workspace: string, screen: string, item?: string, query?: URLSearchParams | Record<string, string> }} route
 */
export function href({ workspace, screen, item = "", query = {} }) {
  const parameters = new URLSearchParams(query);
  for (const [name, value] of [...parameters]) if (value === "") parameters.delete(name);
  const path = item === "" ? `#/${workspace}/${screen}` : `#/${workspace}/${screen}/${item}`;
  return parameters.size > 0 ? `${path}?${parameters}` : path;
}
