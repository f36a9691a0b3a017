/** Notices: why nothing can be shown, and what can be done about it. */

import { element } from "./element.js";

/** Return a notice of an error. `again`: called by its button, if the same may work then. */
export function errorNotice(error, again = null) {
    const button = again && element("button", { type: "button", class: "quiet", click: again }, "Try again");
    return element("div", { class: "notice error", role: "alert" }, element("p", {}, error.message), button);
}

/** Return a notice that says what is waited for. */
export function waitingNotice(text) {
    const dots = element("span", { class: "dots", "aria-hidden": "true" });
    return element("p", { class: "waiting" }, dots, element("span", { class: "waiting-text" }, text));
}

/**
 * Return a notice that counts seconds down, and then calls `again`. It ends at once by its button or by `signal`.
 */
export function retryNotice(error, seconds, again, signal) {
    const left = element("span", { "aria-hidden": "true" });
    const now = element("button", { type: "button", class: "quiet", click: () => finish() }, "Ask now");
    const about = element("p", {}, element("span", { role: "alert" }, error.message), " ", left);
    const shown = element("div", { class: "notice" }, about, now);
    let remaining = Math.max(1, seconds);
    const timer = setInterval(() => {
        remaining -= 1;
        if (remaining <= 0) {
            finish();
        }
        tell();
    }, 1000);

    function tell() {
        left.textContent = `Asking again in ${remaining} s.`;
    }

    function finish() {
        clearInterval(timer);
        again();
    }

    tell();
    signal.addEventListener("abort", () => clearInterval(timer));
    return shown;
}
