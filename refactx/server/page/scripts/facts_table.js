/** The table of the facts that prove an answer. */

import { csvButton } from "./csv.js";
import { element, isolated } from "./element.js";
import { exploreUrl, link, nameOf, statementUrl, textOf } from "./names.js";
import { treeOf } from "./tree.js";

const COLUMNS = ["Subject", "Property", "Value"];

/** Return a table of facts. `title`: its caption. */
export function factsTable(facts, title) {
    const heads = COLUMNS.map((name) => element("th", { scope: "col" }, name));
    const links = element("th", { scope: "col" }, element("span", { class: "unseen" }, "Links"));
    return element(
        "table",
        { class: "facts" },
        element("caption", {}, title, " ", csvButton(() => [COLUMNS, ...facts.map(textsOf)], "facts.csv")),
        element("thead", {}, element("tr", {}, ...heads, links)),
        element("tbody", {}, ...facts.flatMap(rowsOf)),
    );
}

function textsOf(fact) {
    return [fact.subject, fact.predicate, fact.object].map(textOf);
}

function rowsOf(fact) {
    const url = statementUrl(fact);
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
            { class: "source", "aria-label": `${name}, statement on Wikidata` },
            "Wikidata",
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
    const note = "Read backwards: the statement is on the page of the value.";
    return fact.inverse
        ? element(
              "span",
              { class: "inverse", title: note },
              " ",
              element("span", { "aria-hidden": "true" }, "↩"),
              element("span", { class: "unseen" }, "read backwards"),
          )
        : null;
}
