// What most tests of pages need: a demo, the site before it, and a browser.

import { after, before } from "node:test";

import { serve } from "../../dev/serve.mjs";
import { launch, openPage, settled, signIn } from "./browser.mjs";
import { startDemo, WORKSPACE } from "./demo.mjs";

/**
 * @import { Browser } from "playwright-core"
 * @import { Credentials } from "./demo.mjs"
 */

class Site {
  /** @type {Awaited<ReturnType<typeof startDemo>>} */
  demo;
  /** @type {Browser} */
  browser;
  /** @type {string} */
  url;
  #close;

  /**
   * @param {Awaited<ReturnType<typeof startDemo>>} demo
   * @param {Browser} browser
   * @param {Awaited<ReturnType<typeof serve>>} served
   */
  constructor(demo, browser, { url, close }) {
    this.demo = demo;
    this.browser = browser;
    this.url = url;
    this.#close = close;
  }

  /**
   * Opens a screen of the workspace for a member.
   * @param {string} screen
   * @param {{ credentials?: Credentials, width?: number, scheme?: "light" | "dark" }} [options]
   */
  async open(screen, { credentials = this.demo.credentials, ...options } = {}) {
    const opened = await openPage(this.browser, options);
    await signIn(opened.page, `${this.url}#/${WORKSPACE}/${screen}`, credentials);
    await settled(opened.page);
    return opened;
  }

  async stop() {
    await this.browser.close();
    this.#close();
    await this.demo.stop();
  }
}

/** Starts a site before the tests of a file, and stops it after them. */
export function useSite() {
  /** @type {{ current: Site }} */
  const site = { current: /** @type {Site} */ (/** @type {unknown} */ (null)) };
  before(async () => {
    const demo = await startDemo();
    site.current = new Site(demo, await launch(), await serve({ api: demo.url }));
  });
  after(() => site.current.stop());
  return site;
}
