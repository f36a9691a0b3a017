/** The API key, which is asked for if the server needs one, and kept until the window is closed. */

import { element } from "./element.js";

const NAME = "refactx-key";
let asking = null;

/** Return the headers with the key; none if there is no key. */
export function keyHeaders() {
    const key = sessionStorage.getItem(NAME);
    return key ? { Authorization: `Bearer ${key}` } : {};
}

/** Ask for a key, once for all requests that wait for one. Return whether it is another than in the headers `sent`. */
export async function askForKey(sent) {
    if (asking === null && keyHeaders().Authorization !== sent.Authorization) {
        return true; // it was given meanwhile
    }
    asking ??= dialog(Boolean(sent.Authorization)).finally(() => {
        asking = null;
    });
    return asking;
}

function dialog(isWrong) {
    const input = element("input", {
        id: "key",
        type: "password",
        required: true,
        autocomplete: "off",
        spellcheck: "false",
        "aria-describedby": "key-about",
        "aria-invalid": isWrong && "true",
    });
    const about = isWrong
        ? "The server does not know this key. Give another one."
        : "This server answers people who have one of its keys. It is kept until you close this window.";
    const cancel = element("button", { type: "button", class: "quiet", click: () => shown.close() }, "Cancel");
    const form = element(
        "form",
        { method: "dialog" },
        element("h2", { id: "key-title" }, "API key"),
        element("p", { id: "key-about", class: isWrong && "error" }, about),
        element("label", { for: "key" }, "Key"),
        input,
        element("div", { class: "buttons" }, cancel, element("button", { class: "primary" }, "Continue")),
    );
    const shown = element("dialog", { "aria-labelledby": "key-title" }, form);
    return new Promise((resolve) => {
        let given = "";
        form.addEventListener("submit", () => {
            given = input.value.trim();
        });
        shown.addEventListener("close", () => {
            shown.remove();
            if (given) {
                sessionStorage.setItem(NAME, given);
            }
            resolve(Boolean(given));
        });
        document.body.append(shown);
        shown.showModal();
        input.focus();
    });
}
