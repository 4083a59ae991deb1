// The audit log of an organisation, with filters that live in the address.

import { PagedList } from "../api/list.js";
import { OUTCOMES, RESOURCE_KINDS } from "../models/vocabulary.js";
import { href } from "../router.js";
import { capital, fullTime, shortId, words } from "../ui/format.js";
import { byId, html, nothing } from "../ui/lit.js";
import { icon, stateBadge } from "../ui/marks.js";
import { described, empty, Filters, listView, named, pageHeader, spoken, table } from "../ui/parts.js";

/**
 * @import { AuditEntry } from "../../../wasm/pkg/operations.js"
 * @import { Context } from "../context.js"
 * @import { Route } from "../router.js"
 */

const FILTERS = ["actor_id", "action", "resource_kind", "resource_id", "outcome", "since", "until"];

export class AuditScreen {
  #context;
  #filters;
  /** @type {PagedList<AuditEntry>} */
  #list;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    this.#filters = this.#filtersOf(new URLSearchParams());
    this.#list = new PagedList((page) => this.#readPage(page), context.refresh);
  }

  /** @param {Route} route */
  open({ query }) {
    this.#filters = this.#filtersOf(query);
    this.#list.reload();
  }

  /** @param {URLSearchParams} query */
  #filtersOf(query) {
    const { slug } = this.#context.workspace;
    return new Filters(query, (other) => {
      if (other.get("resource_kind") !== query.get("resource_kind")) other.delete("resource_id");
      location.hash = href({ workspace: slug, screen: "audit", query: other });
    });
  }

  /** @param {{ limit: number, cursor?: string }} page */
  #readPage(page) {
    const filters = this.#filters.values(FILTERS);
    return this.#context.operations.listAuditEntries({
      ...filters,
      since: startOf(filters.since),
      until: startOf(filters.until),
      ...page,
    });
  }

  render() {
    return html`
      ${pageHeader({ title: "Audit log", lead: "Who did what, when, and what it was before and after." })}
      ${this.#filterForm()}
      <section class="card flush" aria-label="Entries">
        ${listView(this.#list, {
          items: (entries) =>
            html`<ul class="entries">
              ${byId(entries, (entry) => this.#entry(entry))}
            </ul>`,
          empty: empty({ symbol: "audit", title: "No entries", text: "Nothing in the log matches." }),
        })}
      </section>
    `;
  }

  #filterForm() {
    const filters = this.#filters;
    const members = named(this.#context.directory.members);
    return filters.render(html`
      ${members.length > 0 ? filters.select("actor_id", "By", members) : nothing}
      ${filters.input("action", "Action", { placeholder: "memory.bulk_update" })}
      ${filters.select("resource_kind", "Concerns", spoken(RESOURCE_KINDS))}
      ${filters.select("outcome", "Outcome", spoken(OUTCOMES))} ${filters.input("since", "From", { type: "date" })}
      ${filters.input("until", "Before", { type: "date" })}
    `);
  }

  /** @param {AuditEntry} entry */
  #entry(entry) {
    const { directory, workspace } = this.#context;
    const actor = entry.actor_id === null ? "The service" : directory.memberName(entry.actor_id);
    const fact = (/** @type {string} */ name, /** @type {string | null} */ value) =>
      value === null ? nothing : described(name, html`<code>${value}</code>`);
    const { kind, id } = entry.resource;
    const sameResource = href({
      workspace: workspace.slug,
      screen: "audit",
      query: { resource_kind: kind, resource_id: id },
    });
    return html`
      <li>
        <details>
          <summary>
            ${icon("next")}
            <span class="entry-action"><code>${entry.action}</code></span>
            <span class="entry-actor">${actor}</span>
            <span class="faint">${words(kind)} ${shortId(id)}</span>
            ${stateBadge(entry.outcome)}
            <time class="faint nowrap" datetime=${entry.at}>${fullTime(entry.at)}</time>
          </summary>
          <div class="entry-body">
            ${entry.reason === null ? nothing : html`<p class="grave-text">${capital(entry.reason)}</p>`}
            ${entry.own ? html`<p class="faint">Whoever decided had also added or last changed the memory.</p>` : nothing}
            ${changes(entry.before, entry.after)}
            <dl class="facts">
              ${fact("Resource", id)} ${fact("Operation", entry.operation_id)}
              ${fact("Credential", entry.credential_id)} ${fact("Request", entry.request_id)}
              ${fact("Address", entry.client_address)} ${fact("Inbound webhook", entry.inbound_webhook_id)}
            </dl>
            <p><a href=${sameResource}>All entries about this ${words(kind)}</a></p>
          </div>
        </details>
      </li>
    `;
  }
}

/**
 * Shows the fields of two states; those that differ are marked.
 * @param {unknown} before
 * @param {unknown} after
 */
function changes(before, after) {
  const [was, is] = [before, after].map((state) => /** @type {Record<string, unknown>} */ (state ?? {}));
  const names = [...new Set([...Object.keys(was ?? {}), ...Object.keys(is ?? {})])];
  if (names.length === 0) return nothing;
  const text = (/** @type {unknown} */ value) =>
    typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
  const row = (/** @type {string} */ name) => {
    const [old, current] = [text(was?.[name]), text(is?.[name])];
    return html`
      <tr class=${old === current ? "" : "changed"}>
        <th scope="row">${words(name)}</th>
        <td data-label="Before">${old}</td>
        <td data-label="After">${current}</td>
      </tr>
    `;
  };
  return html` <div class="changes">${table(["Field", "Before", "After"], names.map(row))}</div> `;
}

/**
 * Returns the beginning of a day in the time zone of the user; the service explains an invalid one.
 * @param {string | undefined} day
 */
function startOf(day) {
  const date = new Date(`${day}T00:00`);
  return Number.isNaN(date.getTime()) ? day : date.toISOString();
}
