/** A query of an answer: its line, its SPARQL, and its rows. */

import { copyButton } from "./copy.js";
import { csvButton } from "./csv.js";
import { counted, element, isolated } from "./element.js";
import { factsTable } from "./facts_table.js";
import { exploreUrl, link, nameOf, textOf } from "./names.js";
import { plotOf } from "./plot.js";

const SHOWN = 100;
const OPEN = 30; // rows that are shown at once

/** Return the view of an answered query, as `refactx.queries` has it. `text`: the answer's, which may show its line. */
export function queryView(query, text) {
    const about = {
        list: () => counted(query.count ?? query.rows.length, "row"),
        count: () => `count ${query.answer}`,
        ask: () => (query.truth ? "yes" : "no"),
    };
    const amount = (about[query.head] ?? (() => counted(query.rows.length, "row")))();
    const parts = [element("p", { class: "query-head" }, element("span", { class: "tag" }, "Query"), " ", amount)];
    if (!text.includes(query.query)) {
        parts.push(element("pre", { class: "query-line" }, isolated(query.query)));
    }
    if (!query.is_complete) {
        parts.push(element("p", { class: "notice" }, `The answer is not complete: ${query.reason}.`));
    }
    if (query.rows.length) {
        parts.push(
            element(
                "details",
                { open: query.rows.length <= OPEN },
                element("summary", {}, `Rows (${query.rows.length})`),
                rowsOf(query),
                csvButton(() => [["row", "by"].slice(0, textsOf(query)[0].length), ...textsOf(query)]),
            ),
            plotOf(["row", "value"], textsOf(query)),
        );
    }
    if (query.sparql) {
        const text = element("pre", { tabindex: "0", role: "region", "aria-label": "SPARQL" }, query.sparql.trim());
        const copy = copyButton("Copy SPARQL", () => query.sparql);
        parts.push(
            element("details", {}, element("summary", {}, "SPARQL"), element("div", { class: "code" }, text, copy)),
        );
    } else {
        parts.push(element("p", { class: "soft" }, "There is no SPARQL: not all names of the query have ids."));
    }
    if (query.facts.length) {
        const table = factsTable(query.facts, "Facts that prove it");
        parts.push(
            element(
                "details",
                { open: query.facts.length <= 6 },
                element("summary", {}, `Facts (${query.facts.length})`),
                table,
            ),
        );
    }
    return element("section", { class: "query", "aria-label": "Query of this answer" }, ...parts.filter(Boolean));
}

function textsOf(query) {
    const texts = query.rows.map((row, at) => [textOf(row), query.sorted_by[at] ? textOf(query.sorted_by[at]) : ""]);
    return texts.some(([, by]) => by) ? texts : texts.map(([row]) => [row]);
}

function rowsOf(query) {
    const items = query.rows.slice(0, SHOWN).map((row, at) => {
        const by = query.sorted_by[at];
        const shown =
            row.literal === undefined ? link(exploreUrl(row.label), {}, nameOf(row.label)) : isolated(row.literal);
        return element(
            "li",
            {},
            shown,
            by && element("span", { class: "soft" }, " ", isolated(by.literal ?? by.label)),
        );
    });
    if (query.rows.length > SHOWN) {
        items.push(element("li", { class: "soft" }, `${query.rows.length - SHOWN} more`));
    }
    return element("ul", { class: "rows" }, ...items);
}
