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

/** Return buttons that mark an answer as right or report it as wrong. `result`: the field `refactx` of the answer. */
export function feedbackButtons(question, text, result) {
    const wrong = element("button", { type: "button", class: "quiet small", click: () => ask(send) }, "Wrong?");
    const good = element("button", { type: "button", class: "quiet small", click: mark }, "Right");

    async function send(words, right = false) {
        const facts = (result?.facts ?? []).map((fact) => [fact.subject, fact.predicate, fact.object].map(textOf));
        const texts = facts.slice(0, 100).map((parts) => parts.map((part) => `<${part}>`).join(" "));
        await post("/v1/feedback", { question, answer: text.slice(0, 20_000), facts: texts, words, right });
        (right ? good : wrong).textContent = right ? "Marked" : "Reported";
        good.disabled = wrong.disabled = true;
        say(right ? "Marked" : "Reported");
    }

    async function mark() {
        await send("", true).catch((failed) => say(failed.message));
    }

    return [good, wrong];
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
