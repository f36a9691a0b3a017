/** The facts in a text that was written without the index: which of them exist, and what the nearest one is. */

import { element } from "./element.js";
import { post } from "./server.js";
import { factLink } from "./written_text.js";

/** Mark the facts of a written text, if it has any. Without an index that can be asked, it stays as it is. */
export async function checkedText(written, text, answer) {
    if (!text.includes("<")) {
        return;
    }
    let found;
    try {
        found = (await post("/v1/facts/check", { text })).facts;
    } catch {
        return;
    }
    const characters = Array.from(text); // spans are in code points
    const before = written.root;
    written.clear();
    let at = 0;
    for (const one of found) {
        const [start, stop] = one.span;
        written.add(characters.slice(at, start).join(""));
        written.place(marked(one), characters.slice(start, stop).join(""));
        at = stop;
    }
    written.add(characters.slice(at).join(""));
    written.end(answer);
    before.classList.add("checked");
}

function marked(one) {
    const link = factLink(one.fact, { class: one.exists ? "fact-link" : "fact-link missing" });
    if (one.exists) {
        return element(
            "span",
            { class: "fact whole" },
            link,
            " ",
            element("span", { class: "verdict good" }, "in the index"),
        );
    }
    const text = element("span", { class: "missing" }, ...link.childNodes);
    const verdict = element("span", { class: "verdict bad" }, "not in the index");
    const nearest = one.nearest[0];
    const near = nearest && element("span", { class: "nearest" }, "Nearest: ", factLink(nearest));
    return element("span", { class: "fact" }, text, " ", verdict, near);
}
