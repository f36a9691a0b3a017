/** SPARQL in colours: in a text that is shown, and below a field in which it is written. */

import { element } from "./element.js";

const PARTS = [
    ["comment", /#[^\n]*/],
    ["name", /<[^<>"{}|^`\\\n]*>/],
    ["string", /"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?/],
    ["string", /@[a-zA-Z][a-zA-Z-]*/],
    ["variable", /[?$][\p{L}\p{N}_]+/],
    ["name", /[\p{L}_][\p{L}\p{N}_.-]*:[\p{L}\p{N}_.:%-]*|:[\p{L}\p{N}_.:%-]+/],
    ["number", /\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/],
    ["word", /\p{L}[\p{L}\p{N}_]*/],
];
const ALL = new RegExp(PARTS.map(([, part]) => `(${part.source})`).join("|"), "gu");

/** Return the parts of a query: texts, and elements whose class says what they are. Together they are the query. */
export function coloured(text) {
    const parts = [];
    let at = 0;
    for (const found of text.matchAll(ALL)) {
        const kind = PARTS[found.slice(1).findIndex((part) => part !== undefined)][0];
        parts.push(text.slice(at, found.index), element("span", { class: `of-${kind}` }, found[0]));
        at = found.index + found[0].length;
    }
    return [...parts, text.slice(at)];
}

/** Colour what a field has, in an element below it, which scrolls with it. */
export function colourField(field, below) {
    const show = () => {
        below.replaceChildren(...coloured(field.value), "\n"); // a last line that is empty has its height too
        below.scrollTop = field.scrollTop;
    };
    field.addEventListener("input", show);
    field.addEventListener("change", show);
    field.addEventListener("scroll", () => {
        below.scrollTop = field.scrollTop;
    });
    show();
    return show;
}
