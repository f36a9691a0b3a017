/** The page that runs SPARQL: its address has the query. */

import { showChoice } from "./choice.js";
import { completeNames } from "./complete.js";
import { csvButton } from "./csv.js";
import { counted, element, isolated, say } from "./element.js";
import { address, exploreUrl, link, nameOf } from "./names.js";
import { colourField } from "./highlight.js";
import { errorNotice, waitingNotice } from "./notice.js";
import { plotOf } from "./plot.js";
import { get, post } from "./server.js";
import { showSparqlExamples } from "./sparql_examples.js";

const [form, query, send, stop, result] = ["form", "query", "send", "stop", "result"].map((id) =>
    document.getElementById(id),
);
let running = null;

async function run() {
    const text = query.value.trim();
    if (!text || running) {
        return;
    }
    history.replaceState(null, "", address("/sparql", { query: text }));
    running = new AbortController();
    [send.hidden, stop.hidden] = [true, false];
    result.replaceChildren(waitingNotice("The query runs"));
    try {
        result.replaceChildren(...shown(await post("/v1/sparql", { query: text }, running.signal)));
    } catch (error) {
        const stopped = element("p", { class: "soft" }, "Stopped.");
        result.replaceChildren(error.name === "AbortError" ? stopped : errorNotice(error, error.passes ? run : null));
    } finally {
        running = null;
        [send.hidden, stop.hidden] = [false, true];
    }
}

function shown(found) {
    if (found.boolean !== undefined) {
        say(found.boolean ? "yes" : "no");
        return [element("p", { class: "truth" }, found.boolean ? "Yes" : "No")];
    }
    const columns = found.head.vars;
    const rows = found.results.bindings.map((row) => columns.map((name) => row[name]));
    const texts = rows.map((row) => row.map((term) => textOf(term, found.labels)));
    say(counted(rows.length, "row"));
    const more = found.truncated && "There are more rows: these are the first.";
    return [
        element(
            "div",
            { class: "result-head" },
            element("h2", {}, counted(rows.length, "row")),
            rows.length > 0 && csvButton(() => [columns, ...rows.map((row) => row.map((term) => term?.value ?? ""))]),
        ),
        ...[more, found.note].filter(Boolean).map((note) => element("p", { class: "soft" }, note)),
        ...(rows.length ? [plotOf(columns, texts), tableOf(columns, rows, found.labels)].filter(Boolean) : []),
    ];
}

function tableOf(columns, rows, labels) {
    const heads = columns.map((name) => element("th", { scope: "col" }, name));
    const body = rows.map((row) =>
        element("tr", {}, ...row.map((term) => element("td", {}, term && cellOf(term, labels)))),
    );
    const table = element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...heads)),
        element("tbody", {}, ...body),
    );
    return element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Rows" }, table);
}

function textOf(term, labels) {
    return labels[term?.value] ?? term?.value ?? "";
}

function cellOf(term, labels) {
    if (labels[term.value]) {
        return link(exploreUrl(labels[term.value]), {}, nameOf(labels[term.value]));
    }
    const isPage = term.type === "uri" && /^https?:/.test(term.value);
    return isPage ? link(term.value, {}, term.value) : isolated(String(term.value).replace(/T00:00:00Z$/, ""));
}

form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
});
stop.addEventListener("click", () => running?.abort());
completeNames(query, document.getElementById("names"));
const colour = colourField(query, document.getElementById("colours"));
query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
    }
});
get("/v1/models")
    .then((found) => showChoice(found.data))
    .catch(() => {}); // a query says what is wrong
const given = new URLSearchParams(location.search).get("query");
if (given) {
    write(given);
}
showSparqlExamples(document.getElementById("examples"), write).catch(() => {}); // a query says what is wrong

/** Put a query into the field, and run it. */
function write(text) {
    query.value = text;
    colour();
    run();
}
