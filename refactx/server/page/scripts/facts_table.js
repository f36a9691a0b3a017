/** The table of the facts that prove an answer. */

import { csvButton } from "./csv.js";
import { element, isolated } from "./element.js";
import { exploreUrl, link, nameOf, qualifiersOf, referencesOf, siteOf, sourceUrl, split, textOf } from "./names.js";
import { timelineOf } from "./plot.js";
import { treeOf } from "./tree.js";

const COLUMNS = ["Subject", "Property", "Value"];
const QUALIFIERS = "Qualifiers";
const STARTS = ["P580", "start time", "start", "since", "from"];
const ENDS = ["P582", "end time", "end", "until", "to"];
const POINTS = ["P585", "point in time", "date", "year"];
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
        element("caption", {}, title, " ", csvButton(() => tableOf(facts), "facts.csv")),
        element("thead", {}, element("tr", {}, ...heads, links)),
        body,
    );
    return element("div", { class: "proof" }, table, rest.length > 0 && more, timelineOf(spansOf(facts)));
}

/** Return the name, the first and the last day of each fact, empty if it says none; of one value, by subjects. */
function spansOf(facts) {
    const isOfOne = new Set(facts.map((fact) => textOf(fact.object))).size === 1;
    const valueOf = (fact, names) => {
        const found = (fact.qualifiers ?? []).find(({ predicate }) =>
            names.some((name) => name === predicate.id || name === predicate.label),
        );
        return found ? textOf(found.value) : "";
    };
    return facts.map((fact) => {
        const point = valueOf(fact, POINTS);
        const name = split(textOf(isOfOne ? fact.subject : fact.object)).label;
        return [name, valueOf(fact, STARTS) || point, valueOf(fact, ENDS) || point];
    });
}

/** Return the rows of a file of facts, with a column of qualifiers if some have any. */
function tableOf(facts) {
    const texts = facts.map((fact) => [fact.subject, fact.predicate, fact.object].map(textOf));
    const qualifiers = facts.map(qualifiersOf);
    return qualifiers.some(Boolean)
        ? [[...COLUMNS, QUALIFIERS], ...texts.map((row, at) => [...row, qualifiers[at]])]
        : [COLUMNS, ...texts];
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
        element("td", {}, entity(fact.object), qualified(fact), referencesOf(fact)),
        element("td", { class: "links" }, source, toggle),
    );
    return [row, below];
}

function entity(part) {
    return part.literal === undefined ? link(exploreUrl(part.label), {}, nameOf(part.label)) : isolated(part.literal);
}

/** Return the qualifiers of a statement, one a line under its value. */
function qualified(fact) {
    const lines = (fact.qualifiers ?? []).map((one) =>
        element(
            "div",
            {},
            isolated(textOf(one.predicate), { class: "about" }),
            " ",
            entity(one.value),
        ),
    );
    return lines.length > 0 && element("div", { class: "qualifiers" }, ...lines);
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
