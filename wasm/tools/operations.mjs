// Generates the modules of operations of the package from the OpenAPI document on standard input: a
// table for direct calls (operations.js), and types of requests and responses (operations.d.ts).

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const directory = process.argv[2];
const STDIN = 0;
const document = JSON.parse(readFileSync(STDIN, "utf8"));
const { schemas } = document.components;

const HEAD = "// Generated from the OpenAPI document by wasm/tools/operations.mjs.\n\n";

/** Resolves a local reference. */
function resolve(value) {
  if (!value?.$ref) return value;
  return value.$ref
    .slice("#/".length)
    .split("/")
    .reduce((at, name) => at[name], document);
}

function comment(text, indent = "") {
  if (!text) return "";
  const lines = text.replaceAll("*/", "* /").split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  const body = lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n");
  return `${indent}/**\n${body}\n${indent} */\n`;
}

const union = (types) => [...new Set(types)].join(" | ");

/** Converts a schema into a type. */
function type(schema, indent = "") {
  if (schema === true || schema === undefined) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((value) => JSON.stringify(value)));
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives && !schema.properties) return union(alternatives.map((one) => type(one, indent)));
  if (!schema.type && !schema.properties) return "unknown";
  const types = [schema.type ?? "object"].flat();
  return union(types.map((name) => typeOfKind(name, schema, indent)));
}

function typeOfKind(name, schema, indent) {
  switch (name) {
    case "string":
    case "boolean":
    case "null":
      return name;
    case "integer":
    case "number":
      return "number";
    case "array": {
      const item = type(schema.items, indent);
      return /[ |]/.test(item) ? `Array<${item}>` : `${item}[]`;
    }
    case "object":
      return object(schema, indent);
    default:
      throw new Error(`no type for the schema ${JSON.stringify(schema)}`);
  }
}

function object(schema, indent) {
  const { properties, required = [], additionalProperties } = schema;
  if (!properties) {
    const values = typeof additionalProperties === "object" ? type(additionalProperties) : "unknown";
    return additionalProperties === false ? "Record<string, never>" : `Record<string, ${values}>`;
  }
  const inner = `${indent}  `;
  const fields = Object.entries(properties).map(([name, property]) => {
    const key = /^\w+$/.test(name) ? name : JSON.stringify(name);
    const mark = required.includes(name) ? "" : "?";
    return `${comment(property.description, inner)}${inner}${key}${mark}: ${type(property, inner)};\n`;
  });
  return `{\n${fields.join("")}${indent}}`;
}

/** Converts a header name such as `Idempotency-Key` into `idempotencyKey`. */
function parameterName(header) {
  const words = header.toLowerCase().split("-");
  return words.map((word, at) => (at ? word[0].toUpperCase() + word.slice(1) : word)).join("");
}

/**
 * The parameter of a conditional request, which can give a 304 without a body. Only `call` accepts
 * it, because only `call` returns the `ETag`.
 */
const CONDITION = "ifNoneMatch";

function bodyType(content) {
  const schema = content?.["application/json"]?.schema;
  return schema ? type(schema, "    ") : undefined;
}

function describe(method, path, operation) {
  const parameters = (operation.parameters ?? []).map(resolve);
  const named = (place) => parameters.filter((one) => one.in === place).map(({ name }) => name);
  const headers = Object.fromEntries(named("header").map((name) => [parameterName(name), name]));
  const fields = parameters.map(({ name, in: place, required, schema, description }) => {
    const key = place === "header" ? parameterName(name) : name;
    return { key, isRequired: required === true, type: type(schema), description };
  });
  const sent = resolve(operation.requestBody);
  const body = bodyType(sent?.content);
  if (body) fields.push({ key: "body", isRequired: sent.required === true, type: body });
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith("2"))[1];
  return {
    id: operation.operationId,
    summary: operation.summary,
    description: operation.description,
    row: { method, path, query: named("query"), headers },
    isConditional: CONDITION in headers,
    fields,
    answer: bodyType(resolve(success).content) ?? "undefined",
  };
}

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods)
    // A signature covers bytes: such a message is sent as a request, not by a direct call.
    .filter(([, operation]) => !operation.security.some((one) => "signature" in one))
    .map(([method, operation]) => describe(method.toUpperCase(), path, operation)),
);

function table() {
  const rows = operations.map(({ id, row }) => {
    const parts = Object.entries(row).filter(([, value]) => Object.keys(value).length > 0);
    return `  ${id}: ${JSON.stringify(Object.fromEntries(parts))},\n`;
  });
  return `${HEAD}export const OPERATIONS = {\n${rows.join("")}};\n`;
}

function parametersType(fields) {
  const lines = fields.map(
    ({ key, isRequired, type, description }) =>
      `${comment(description, "      ")}      ${key}${isRequired ? "" : "?"}: ${type};\n`,
  );
  return lines.length > 0 ? `{\n${lines.join("")}    }` : "Record<string, never>";
}

function types() {
  const declared = Object.entries(schemas).map(([name, schema]) => {
    const text = type(schema);
    const about = comment(schema.description);
    return text.startsWith("{") && !text.includes("\n} |")
      ? `${about}export interface ${name} ${text}\n\n`
      : `${about}export type ${name} = ${text};\n\n`;
  });
  const entries = operations.map(
    ({ id, summary, fields, answer, isConditional }) =>
      `${comment(`${summary}.`, "  ")}  ${id}: {\n    parameters: ${parametersType(fields)};\n    answer: ${answer}${isConditional ? " | undefined" : ""};\n  };\n`,
  );
  const methods = operations.map(({ id, summary, description, fields, isConditional }) => {
    const parameters = isConditional
      ? `Omit<Operations["${id}"]["parameters"], "${CONDITION}">`
      : `Operations["${id}"]["parameters"]`;
    const answer = isConditional ? `NonNullable<Operations["${id}"]["answer"]>` : `Operations["${id}"]["answer"]`;
    const mark = fields.some(({ isRequired }) => isRequired) ? "" : "?";
    const about = comment(`${summary}.\n\n${description}`, "  ");
    return `${about}  ${id}(credential: string, parameters${mark}: ${parameters}): Promise<${answer}>;\n`;
  });
  return `${HEAD}${declared.join("")}/** Parameters and response body of each operation; \`undefined\` stands for a 304. */
export interface Operations {
${entries.join("")}}

/**
 * The operations as methods, which return the body of the response or reject with an error. The
 * credential is a token or a session. To receive or send an \`ETag\`, use \`call\`.
 */
export interface DirectCalls {
${methods.join("")}}
`;
}

writeFileSync(join(directory, "operations.js"), table());
writeFileSync(join(directory, "operations.d.ts"), types());
