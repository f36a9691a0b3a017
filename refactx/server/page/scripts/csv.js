/** Downloads: rows as CSV, and documents as JSON. */

import { element } from "./element.js";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const FORMULA = /^[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/; // wide characters too

/**
 * Return rows of texts as CSV (RFC 4180). A text that a spreadsheet would take for a formula has an apostrophe before
 * it; numbers stay numbers.
 */
export function csvOf(rows) {
    const guarded = (text) => (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const cell = (text) => quoted(guarded(text));
    return rows.map((row) => `${row.map((text) => cell(text ?? "")).join(",")}\r\n`).join("");
}

/** Return a button that saves rows, which `rows` returns, as a file. */
export function csvButton(rows, file = "rows.csv") {
    const click = () => save(file, "text/csv;charset=utf-8", `\ufeff${csvOf(rows())}`);
    return element("button", { type: "button", class: "quiet small", click }, "Save CSV");
}

/** Let the browser save a text as a file. */
export function save(file, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    element("a", { href: url, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
