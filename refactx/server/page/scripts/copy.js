/** Buttons that copy a text. */

import { element, say } from "./element.js";

const DONE_MILLISECONDS = 1600;

/** Return a button that copies what `text` returns. */
export function copyButton(name, text) {
    const button = element("button", { type: "button", class: "quiet small", click }, name);

    async function click() {
        await copy(text());
        button.textContent = "Copied";
        say("Copied");
        setTimeout(() => {
            button.textContent = name;
        }, DONE_MILLISECONDS);
    }

    return button;
}

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        copyByHand(text); // pages that do not come by HTTPS have no clipboard
    }
}

function copyByHand(text) {
    const before = document.activeElement;
    const area = element("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    before?.focus();
}
