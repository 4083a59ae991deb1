// Generates the modules of operations of the package from the OpenAPI documents on standard input,
// one a line: tables for direct calls and for provisioning (operations.js), types of requests,
// responses and events (operations.d.ts), and types of provisioning (provisioning.d.ts).

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const directory = process.argv[2];
const STDIN = 0;
const documents = readFileSync(STDIN, "utf8").trim().split("\n");
const [publicDocument, operatorDocument] = documents.map((text) => JSON.parse(text));

const HEAD = "// Generated from the OpenAPI documents by wasm/tools/operations.mjs.\n\n";

/** Resolves a local reference. */
function resolve(document, value) {
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

function describe(document, method, path, operation) {
  const parameters = (operation.parameters ?? []).map((one) => resolve(document, one));
  const named = (place) => parameters.filter((one) => one.in === place).map(({ name }) => name);
  const headers = Object.fromEntries(named("header").map((name) => [parameterName(name), name]));
  const fields = parameters.map(({ name, in: place, required, schema, description }) => {
    const key = place === "header" ? parameterName(name) : name;
    return { key, place, isRequired: required === true, type: type(schema), description };
  });
  const sent = resolve(document, operation.requestBody);
  const body = bodyType(sent?.content);
  if (body) fields.push({ key: "body", place: "body", isRequired: sent.required === true, type: body });
  const answered = Object.entries(operation.responses);
  // A dry run is answered with another status and another type.
  const successes = answered.filter(([status]) => status.startsWith("2"));
  const answers = successes.map(([, success]) => {
    return bodyType(resolve(document, success).content) ?? "undefined";
  });
  return {
    id: operation.operationId,
    summary: operation.summary,
    description: operation.description,
    capability: operation.tags[0],
    row: { method, path, query: named("query"), headers },
    isConditional: CONDITION in headers,
    fields,
    answer: union(answers),
  };
}

function describeAll(document) {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      // A signature covers bytes: such a message is sent as a request, not by a direct call.
      .filter(([, operation]) => !operation.security?.some((one) => "signature" in one))
      .map(([method, operation]) => describe(document, method.toUpperCase(), path, operation)),
  );
}

const operations = describeAll(publicDocument);

/** Name of the capability whose requests are sent by `fetch` only. */
const WITHOUT_METHODS = "Deliveries";

const provisioning = describeAll(operatorDocument)
  .filter(({ capability }) => capability !== WITHOUT_METHODS)
  .map(provisioningMethod);

/**
 * Converts an operation into a method. Its arguments are the parameters of the path, required
 * parameters of the query, and last the body, or the query of a list.
 */
function provisioningMethod({ id, summary, description, row: { method, path }, fields, answer }) {
  const name = id.replace(/^(list|get)(.)/, (_, verb, letter) => letter.toLowerCase());
  const inPath = fields.filter(({ place }) => place === "path");
  const inQuery = fields.filter(({ place, isRequired }) => place === "query" && isRequired);
  const listed = fields.filter(({ place, isRequired }) => method === "GET" && place === "query" && !isRequired);
  const body = fields.filter(({ place }) => place === "body");
  const [last] = [...body.map(() => "body"), ...listed.slice(0, 1).map(() => "query")];
  const parameters = [...inPath, ...inQuery, ...body].map(({ key, type }) => `${key}: ${type}`);
  if (last === "query") parameters.push(`query?: ${queryType(listed)}`);
  return {
    name,
    row: { method, path, query: inQuery.map(({ key }) => key), last },
    about: comment([`${summary}.`, description].filter(Boolean).join("\n\n"), "  "),
    parameters: parameters.join(", "),
    answer: answer === "undefined" ? "void" : answer.replace(/^(\w+)Page$/, "Page<$1>"),
  };
}

/** Returns the type of the query of a list, which is paginated. */
function queryType(fields) {
  const own = fields.filter(({ key }) => !["limit", "cursor"].includes(key));
  const types = own.map(({ key, type }) => `${key}?: ${type}`);
  return own.length > 0 ? `PageQuery & { ${types.join("; ")} }` : "PageQuery";
}

function table(name, rows) {
  const lines = rows.map(([id, row]) => {
    const parts = Object.entries(row).filter(([, value]) => value && Object.keys(value).length > 0);
    return `  ${id}: ${JSON.stringify(Object.fromEntries(parts))},\n`;
  });
  return `export const ${name} = {\n${lines.join("")}};\n`;
}

function tables() {
  const direct = table("OPERATIONS", operations.map(({ id, row }) => [id, row]));
  const methods = table("PROVISIONING", provisioning.map(({ name, row }) => [name, row]));
  return `${HEAD}${direct}\n${methods}`;
}

/** Declares the type of a schema. */
function declare([name, schema]) {
  const text = type(schema);
  const about = comment(schema.description);
  return text.startsWith("{") && !text.includes("\n} |")
    ? `${about}export interface ${name} ${text}\n\n`
    : `${about}export type ${name} = ${text};\n\n`;
}

function parametersType(fields) {
  const lines = fields.map(
    ({ key, isRequired, type, description }) =>
      `${comment(description, "      ")}      ${key}${isRequired ? "" : "?"}: ${type};\n`,
  );
  return lines.length > 0 ? `{\n${lines.join("")}    }` : "Record<string, never>";
}

function types() {
  const declared = Object.entries(publicDocument.components.schemas).map(declare);
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
  const events = Object.entries(publicDocument.webhooks).map(([name, { post }]) => {
    const about = comment(`${post.summary}.`, "  ");
    return `${about}  ${JSON.stringify(name)}: ${bodyType(post.requestBody.content)};\n`;
  });
  return `${HEAD}${declared.join("")}/** Body of a delivery of each type of event. */
export interface WebhookEvents {
${events.join("")}}

/** Body of a delivery; its field \`type\` distinguishes the types. */
export type WebhookEvent = WebhookEvents[keyof WebhookEvents];

/** Parameters and response body of each operation; \`undefined\` stands for a 304. */
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

/** Returns the names of the schemas that a text of types names, directly or through others. */
function namesIn(text, schemas, found = new Set()) {
  for (const [name] of text.matchAll(/\b[A-Z]\w*/g)) {
    if (!(name in schemas) || found.has(name)) continue;
    found.add(name);
    namesIn(type(schemas[name]), schemas, found);
  }
  return found;
}

function provisioningTypes() {
  const { schemas } = operatorDocument.components;
  const methods = provisioning.map(
    ({ name, about, parameters, answer }) => `${about}  ${name}(${parameters}): Promise<${answer}>;\n`,
  );
  const own = [];
  const imported = [];
  for (const name of [...namesIn(methods.join(""), schemas)].sort()) {
    const shared = publicDocument.components.schemas[name];
    if (shared && JSON.stringify(shared) !== JSON.stringify(schemas[name])) {
      throw new Error(`the documents have different schemas of the name ${name}`);
    }
    (shared ? imported : own).push(name);
  }
  const declared = own.map((name) => declare([name, schemas[name]])).join("");
  // A type is imported only if a declaration names it.
  const used = imported.filter((name) => new RegExp(`\\b${name}\\b`).test(declared + methods.join("")));
  return `${HEAD}import type { RequestLike } from "./index.js";
import type { ${used.join(", ")} } from "./operations.js";

/** Parameters of a page of a list. */
export interface PageQuery {
  /** Number of items, at most ${operatorDocument.components.parameters.limit.schema.maximum}. */
  limit?: number;
  /** \`next_cursor\` of the previous page. */
  cursor?: string;
}

/** A page of a list. */
export interface Page<T> {
  data: T[];
  /** The \`cursor\` of the next page; \`null\` at the end. */
  next_cursor: string | null;
}

${declared}/**
 * The operator API of a service, without authentication: a caller can do everything. Organisations
 * are given by slug, workspaces by slug or identifier, members by handle or identifier.
 */
export class Provisioning {
  private constructor();
  /**
   * Handles a request to the operator API, as the server's admin socket does. The methods below are
   * its requests, under \`/admin/v1/orgs\`; it also has requests for deliveries. Pass on requests of
   * the operator only.
   */
  fetch(request: RequestLike): Promise<Response>;
${methods.join("")}}
`;
}

writeFileSync(join(directory, "operations.js"), tables());
writeFileSync(join(directory, "provisioning.d.ts"), provisioningTypes());
writeFileSync(join(directory, "operations.d.ts"), types());
