// Paginated lists.

import { ApiError } from "./error.js";

/** Items of a page that a screen shows. */
const PAGE_ITEMS = 50;
/** Items of a page where a whole list is read; the maximum of the API. */
const PAGE_ITEMS_MAX = 200;

/**
 * One page of a list.
 * @template T
 * @typedef {{ data: T[], next_cursor: string | null }} Page
 */

/**
 * Reads one page of a list.
 * @template T
 * @typedef {(page: { limit: number, cursor?: string }) => Promise<Page<T>>} ReadPage
 */

/**
 * A list that is shown page by page.
 * @template T
 */
export class PagedList {
  /** @type {T[]} */
  items = [];
  isLoading = false;
  /** @type {ApiError | null} */
  error = null;
  /** @type {string | null | undefined} Undefined before the first page. */
  #next = undefined;
  /** Number of reloads, which outdates pages that arrive later. */
  #generation = 0;
  /** Position that was read last. @type {string | undefined} */
  #cursor;
  #readPage;
  #onChange;

  /**
   * @param {ReadPage<T>} readPage
   * @param {() => void} onChange
   */
  constructor(readPage, onChange) {
    this.#readPage = readPage;
    this.#onChange = onChange;
  }

  /** True once the first page has been read. */
  get isLoaded() {
    return this.#next !== undefined;
  }

  get hasMore() {
    return typeof this.#next === "string";
  }

  /** Reads the list from its beginning. What is shown stays until the first page has arrived. */
  async reload() {
    this.#generation += 1;
    await this.#read(undefined);
  }

  /** Reads the next page. */
  async more() {
    if (!this.isLoading) await this.#read(this.#next ?? undefined);
  }

  /** Reads again what could not be read. */
  retry() {
    return this.#read(this.#cursor);
  }

  /** @param {string | undefined} cursor */
  async #read(cursor) {
    this.#cursor = cursor;
    const generation = this.#generation;
    this.isLoading = true;
    this.error = null;
    this.#onChange();
    try {
      const page = await this.#readPage({ limit: PAGE_ITEMS, cursor });
      if (generation !== this.#generation) return;
      this.items = cursor === undefined ? page.data : [...this.items, ...page.data];
      this.#next = page.next_cursor;
    } catch (error) {
      if (generation !== this.#generation) return;
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
    }
    this.isLoading = false;
    this.#onChange();
  }
}

/**
 * Reads pages until the list ends, or the receiver returns false.
 * @template T
 * @param {ReadPage<T>} readPage
 * @param {(items: T[]) => boolean} receive
 */
export async function readAll(readPage, receive) {
  /** @type {string | undefined} */
  let cursor;
  do {
    const page = await readPage({ limit: PAGE_ITEMS_MAX, cursor });
    cursor = page.next_cursor ?? undefined;
    if (!receive(page.data)) return;
  } while (cursor !== undefined);
}
