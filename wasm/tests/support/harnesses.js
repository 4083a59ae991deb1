// How the stores that are tried are opened: each with nothing in it.

/** For stores whose contents go with them. */
export function volatile(make) {
  return { isDurable: false, open: make, reopen: make };
}

/** For stores that are opened by a name and closed. */
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
