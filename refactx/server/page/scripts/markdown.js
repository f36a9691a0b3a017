/** A question and its answer as Markdown. */

import { factUrl, qualifiersOf, textOf } from "./names.js";

const SPECIAL = /[\\`*_[\]<>|#~]/g;

/** Return a turn as Markdown. `result`: the field `refactx` of its answer, null if it was not finished. */
export function markdownOf(question, text, result) {
    const answer = result?.answer ?? "";
    const parts = [`**${escaped(question)}**`, answer ? escaped(answer) : escaped(text)];
    const facts = result?.facts ?? [];
    if (facts.length) {
        parts.push(facts.map((fact, at) => `${at + 1}. ${factAsMarkdown(fact)}`).join("\n"));
    }
    for (const query of result?.queries ?? []) {
        parts.push(fenced("", query.query));
        if (query.sparql) {
            parts.push(fenced("sparql", query.sparql.trim()));
        }
    }
    return `${parts.join("\n\n")}\n`;
}

function factAsMarkdown(fact) {
    const said = qualifiersOf(fact);
    const text = [fact.subject, fact.predicate, fact.object].map(textOf).join(" — ") + (said && ` (${said})`);
    return `[${escaped(text)}](${new URL(factUrl(fact), location.href).href.replace(/[()]/g, encodeURIComponent)})`;
}

function fenced(language, text) {
    const fence = "`".repeat(Math.max(3, ...(text.match(/`+/g) ?? []).map((run) => run.length + 1)));
    return `${fence}${language}\n${text}\n${fence}`;
}

/** Return a text without the meaning that Markdown gives to its characters. */
export function escaped(text) {
    return text.replace(SPECIAL, "\\$&").replace(/\n/g, "  \n");
}
