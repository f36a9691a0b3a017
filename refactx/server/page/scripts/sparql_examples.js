/** Queries that this index answers, made of its own names. */

import { element } from "./element.js";
import { address, split } from "./names.js";
import { get, post } from "./server.js";

const MADE = 12; // questions of the index of which queries are made
const SHOWN = 5;

/** Show queries in a list. `choose`: called with one that is clicked. The first is also what the field begins with. */
export async function showSparqlExamples(section, choose) {
    const { examples } = await get("/v1/examples", { limit: MADE });
    const list = section.querySelector("ul");
    for (const [title, query] of examples.length ? queriesOf(examples) : []) {
        if (list.children.length >= SHOWN) {
            break;
        }
        if (await runs(query)) {
            const click = (event) => {
                if (!event.metaKey && !event.ctrlKey && !event.shiftKey) {
                    event.preventDefault();
                    choose(query);
                }
            };
            const shown = element("a", { href: address("/sparql", { query }), dir: "auto", click }, title);
            list.append(element("li", {}, shown));
            section.hidden = false;
        }
    }
}

function* queriesOf(examples) {
    const [{ question, subject, predicate }, ...others] = examples;
    const { label } = split(subject);
    yield [question, `SELECT ?x {\n  <${subject}> <${predicate}> ?x\n}`];
    yield [`All that the index says of ${label}`, `SELECT ?property ?value {\n  <${subject}> ?property ?value\n}`];
    yield [
        `Which values “${predicate}” has most often`,
        `SELECT ?value (COUNT(?x) AS ?times) {\n  ?x <${predicate}> ?value\n}\n` +
            "GROUP BY ?value\nORDER BY DESC(?times)\nLIMIT 20",
    ];
    for (const one of others) {
        yield [one.question, `SELECT ?x {\n  <${one.subject}> <${one.predicate}> ?x\n}`];
    }
}

/** Return whether a query has an answer here: without a store, an index answers some kinds alone. */
async function runs(query) {
    try {
        return (await post("/v1/sparql", { query, limit: 1 })).results.bindings.length > 0;
    } catch {
        return false;
    }
}
