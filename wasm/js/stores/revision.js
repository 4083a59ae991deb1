// Revisions of stores, by which the module keeps copies of them.

/**
 * Name of a method that returns the number of commits so far, or `undefined` if the store cannot be
 * mirrored. A store that has it is synchronous, and changes by its own commits only.
 */
export const REVISION = Symbol("revision");
