/** The table of the facts that prove an answer. */

import { csvButton } from "./csv.js";
import { element, isolated } from "./element.js";
import { exploreUrl, link, nameOf, siteOf, sourceUrl, textOf } from "./names.js";
import { treeOf } from "./tree.js";

const COLUMNS = ["Subject", "Property", "Value"];
const FIRST = 10;

/** Return a table of facts, of which the first are shown at once. `title`: its caption. */
export function factsTable(facts, title) {
    const heads = COLUMNS.map((name) => element("th", { scope: "col" }, name));
    const links = element("th", { scope: "col" }, element("span", { class: "unseen" }, "Links"));
    const body = element("tbody", {}, ...facts.slice(0, FIRST).flatMap(rowsOf));
    const rest = facts.slice(FIRST);
    const click = () => {
        body.append(...rest.flatMap(rowsOf));
        more.remove();
    };
    const more = element("button", { type: "button", class: "quiet small", click }, `Show all ${facts.length}`);
    const table = element(
        "table",
        { class: "facts" },
        element("caption", {}, title, " ", csvButton(() => [COLUMNS, ...facts.map(textsOf)], "facts.csv")),
        element("thead", {}, element("tr", {}, ...heads, links)),
        body,
    );
    return element("div", { class: "proof" }, table, rest.length > 0 && more);
}

function textsOf(fact) {
    return [fact.subject, fact.predicate, fact.object].map(textOf);
}

function rowsOf(fact) {
    const url = sourceUrl(fact);
    const name = `${textOf(fact.subject)}: ${textOf(fact.predicate)}: ${textOf(fact.object)}`;
    const below = element("tr", { class: "below", hidden: true }, element("td", { colspan: "4" }));
    const toggle = element(
        "button",
        {
            type: "button",
            class: "quiet small",
            "aria-expanded": "false",
            "aria-label": `Tree at ${name}`,
            click: turn,
        },
        "Tree",
    );

    function turn() {
        below.hidden = !below.hidden;
        toggle.setAttribute("aria-expanded", String(!below.hidden));
        if (!below.hidden) {
            below.firstChild.replaceChildren(treeOf(fact));
        }
    }

    const source =
        url &&
        link(
            url,
            { class: "source", "aria-label": `${name}, on ${siteOf(url)}` },
            siteOf(url),
            element("span", { "aria-hidden": "true" }, " ↗"),
        );
    const row = element(
        "tr",
        {},
        element("td", {}, entity(fact.subject)),
        element(
            "td",
            { class: "property" },
            link(
                exploreUrl(textOf(fact.subject), textOf(fact.predicate)),
                {},
                isolated(textOf(fact.predicate), { class: "label" }),
            ),
            backwards(fact),
        ),
        element("td", {}, entity(fact.object)),
        element("td", { class: "links" }, source, toggle),
    );
    return [row, below];
}

function entity(part) {
    return part.literal === undefined ? link(exploreUrl(part.label), {}, nameOf(part.label)) : isolated(part.literal);
}

function backwards(fact) {
    const note = "The source says this on the page of the value.";
    return fact.inverse
        ? element(
              "span",
              { class: "inverse", title: note },
              " ",
              element("span", { "aria-hidden": "true" }, "↩"),
              element("span", { class: "unseen" }, note),
          )
        : null;
}
