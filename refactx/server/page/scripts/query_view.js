/** A query of an answer: its line, its SPARQL, and its rows. */

import { copyButton } from "./copy.js";
import { csvButton } from "./csv.js";
import { counted, element, isolated } from "./element.js";
import { coloured } from "./highlight.js";
import { address, exploreUrl, link, nameOf, textOf } from "./names.js";
import { plotOf } from "./plot.js";

const SHOWN = 100;

/** Return what people have to see of an answered query: that its answer is not complete, and the plot of its rows. */
export function queryResult(query) {
    const notice =
        !query.is_complete &&
        element("p", { class: "notice" }, `The answer is not complete: ${query.reason}.`);
    return [notice, query.rows.length > 0 && plotOf(columnsOf(query), textsOf(query))];
}

/** Return how an answered query reads, as `refactx.queries` has it. `text`: the answer's, which may show its line. */
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
    if (query.rows.length) {
        parts.push(
            element(
                "details",
                {},
                element("summary", {}, `Rows (${query.rows.length})`),
                rowsOf(query),
                csvButton(() => [columnsOf(query), ...textsOf(query)]),
            ),
        );
    }
    if (query.sparql) {
        const sparql = coloured(query.sparql.trim());
        const code = element("pre", { tabindex: "0", role: "region", "aria-label": "SPARQL" }, ...sparql);
        const buttons = element(
            "p",
            { class: "buttons" },
            copyButton("Copy SPARQL", () => query.sparql),
            link(address("/sparql", { query: query.sparql.trim() }), { class: "quiet small" }, "Open in SPARQL"),
        );
        parts.push(element("details", {}, element("summary", {}, "SPARQL"), code, buttons));
    } else {
        parts.push(element("p", { class: "soft" }, "There is no SPARQL: not all names of the query have ids."));
    }
    return element("section", { class: "query", "aria-label": "Query of this answer" }, ...parts);
}

function columnsOf(query) {
    return ["row", ...(query.sorted_by.length ? ["by"] : []), ...query.columns];
}

function textsOf(query) {
    return query.rows.map((row, at) => [
        textOf(row),
        ...(query.sorted_by.length ? [textOf(query.sorted_by[at])] : []),
        ...(query.cells[at] ?? []).map((cell) => cell.map(textOf).join("; ")),
    ]);
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
            ...(query.cells[at] ?? []).map((cell, column) => {
                const values = isolated(cell.map(textOf).join("; "));
                return element("span", { class: "soft" }, ` ${query.columns[column]}: `, values);
            }),
        );
    });
    if (query.rows.length > SHOWN) {
        items.push(element("li", { class: "soft" }, `${query.rows.length - SHOWN} more`));
    }
    return element("ul", { class: "rows" }, ...items);
}
