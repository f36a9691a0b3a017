/** What people report of an answer, if the server keeps that. */

import { element, say } from "./element.js";
import { textOf } from "./names.js";
import { get, post } from "./server.js";

let asked = null;

/** Return whether the server takes feedback. */
export function takesFeedback() {
    asked ??= get("/health").then((found) => found.feedback === "taken", () => false);
    return asked;
}

/** Return a button that reports an answer as wrong. `result`: the field `refactx` of the answer. */
export function wrongButton(question, text, result) {
    const button = element("button", { type: "button", class: "quiet small", click: () => ask(send) }, "Wrong?");

    async function send(words) {
        const facts = (result?.facts ?? []).map((fact) => [fact.subject, fact.predicate, fact.object].map(textOf));
        const texts = facts.slice(0, 100).map((parts) => parts.map((part) => `<${part}>`).join(" "));
        await post("/v1/feedback", { question, answer: text.slice(0, 20_000), facts: texts, words });
        button.textContent = "Reported";
        button.disabled = true;
        say("Reported");
    }

    return button;
}

function ask(send) {
    const words = element("textarea", { id: "words", rows: "4", maxlength: "4000", dir: "auto" });
    const error = element("p", { class: "error", role: "alert", hidden: true });
    const cancel = element("button", { type: "button", class: "quiet", click: () => shown.close() }, "Cancel");
    const form = element(
        "form",
        { submit },
        element("h2", { id: "wrong-title" }, "Report this answer"),
        element("p", {}, "The people who run this server get the question, the answer with its facts, and your words."),
        element("label", { for: "words" }, "What is wrong? (optional)"),
        words,
        error,
        element("div", { class: "buttons" }, cancel, element("button", { class: "primary" }, "Report")),
    );
    const shown = element("dialog", { "aria-labelledby": "wrong-title" }, form);

    async function submit(event) {
        event.preventDefault();
        try {
            await send(words.value.trim());
            shown.close();
        } catch (failed) {
            error.textContent = failed.message;
            error.hidden = false;
        }
    }

    shown.addEventListener("close", () => shown.remove());
    document.body.append(shown);
    shown.showModal();
    words.focus();
}
