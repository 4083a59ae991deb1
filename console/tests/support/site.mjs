// What most tests of pages need: a demo and a browser.

import { after, before } from "node:test";

import { launch, openPage, settled, signIn } from "./browser.mjs";
import { startDemo, WORKSPACE } from "./demo.mjs";

/** @import { Browser } from "playwright-core" */

class Site {
  /** @type {Awaited<ReturnType<typeof startDemo>>} */
  demo;
  /** @type {Browser} */
  browser;
  /** Address of the page. */
  url;

  /**
   * @param {Awaited<ReturnType<typeof startDemo>>} demo
   * @param {Browser} browser
   */
  constructor(demo, browser) {
    this.demo = demo;
    this.browser = browser;
    this.url = `${demo.url}/`;
  }

  /**
   * Opens a screen of the workspace for a member.
   * @param {string} screen
   * @param {{ member?: string, width?: number, scheme?: "light" | "dark" }} [options]
   */
  async open(screen, { member, ...options } = {}) {
    const opened = await openPage(this.browser, options);
    await signIn(opened.page, this.demo.link(member));
    await opened.page.goto(`${this.url}#/${WORKSPACE}/${screen}`);
    await settled(opened.page);
    return opened;
  }

  async stop() {
    await this.browser.close();
    await this.demo.stop();
  }
}

/** Starts a site before the tests of a file, and stops it after them. */
export function useSite() {
  /** @type {{ current: Site }} */
  const site = { current: /** @type {Site} */ (/** @type {unknown} */ (null)) };
  before(async () => {
    const demo = await startDemo();
    site.current = new Site(demo, await launch());
  });
  after(() => site.current.stop());
  return site;
}
