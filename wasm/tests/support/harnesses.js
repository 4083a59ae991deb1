// Harnesses of the stores under test; each opens empty stores.

/** Creates a harness of volatile stores. */
export function volatile(make) {
  return { isDurable: false, open: make, reopen: make };
}

/** Creates a harness of durable stores, which are opened by name and closed. */
export function named(openAt, nameAt) {
  let number = 0;
  let store;
  return {
    isDurable: true,
    async open() {
      store?.close();
      store = await openAt(nameAt(++number));
      return store;
    },
    async reopen() {
      store.close();
      store = await openAt(nameAt(number));
      return store;
    },
  };
}
