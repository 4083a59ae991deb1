// Checks the fields of a bill of materials that CycloneDX requires, and its references.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const bill = JSON.parse(readFileSync(process.argv[2], "utf8"));
assert.equal(bill.bomFormat, "CycloneDX");
assert.equal(bill.specVersion, "1.6");
assert.ok(Number.isInteger(bill.version) && bill.version >= 1);
assert.match(bill.metadata.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
assert.equal(bill.metadata.component.name, "knowledge-cli");

const components = [bill.metadata.component, ...bill.components];
for (const component of components) {
  const { type, name, version, purl, licenses, hashes = [] } = component;
  assert.ok(["application", "library"].includes(type), name);
  assert.ok(name && version, JSON.stringify(component));
  assert.equal(purl, `pkg:${name === "std" ? "generic" : "cargo"}/${name}@${version}`);
  assert.match(licenses[0].expression, /^[A-Za-z0-9.()+ -]+$/);
  for (const { alg, content } of hashes) {
    assert.equal(alg, "SHA-256");
    assert.match(content, /^[0-9a-f]{64}$/);
  }
}
// Crates of the registry have a checksum, those of the workspace have none.
const workspace = components.filter((component) => !component.hashes);
for (const { name } of workspace) assert.match(name, /^(knowledge-|std$)/);

const references = new Set(components.map((component) => component["bom-ref"]));
assert.equal(references.size, components.length, "references are unique");
const from = new Set(bill.dependencies.map(({ ref }) => ref));
assert.deepEqual([...from].sort(), [...references].sort());
for (const { dependsOn } of bill.dependencies) {
  for (const reference of dependsOn) assert.ok(references.has(reference), reference);
}
// The storage engines and the TLS library are in the binary; the engine of the tests is not.
const names = new Set(components.map(({ name }) => name));
for (const name of ["sled", "fjall", "rustls", "tokio"]) assert.ok(names.has(name), name);
for (const name of ["proptest", "insta", "serde_derive"]) assert.ok(!names.has(name), name);
console.log(`${components.length} components`);
