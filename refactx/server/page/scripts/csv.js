/** Downloads: rows as CSV, and documents as JSON. */

import { element } from "./element.js";

/** Return rows of texts as CSV (RFC 4180). */
export function csvOf(rows) {
    const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
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
