/** Conversations that this browser keeps, which can be opened again, deleted, and saved as JSON. */

import { save } from "./csv.js";
import { counted, element, say } from "./element.js";

const NAME = "refactx-history";
const MOST = 100;

function kept() {
    try {
        const found = JSON.parse(localStorage.getItem(NAME) ?? "[]");
        return Array.isArray(found) ? found : [];
    } catch {
        return [];
    }
}

/** Keep conversations, the oldest of them only while the browser has room. */
function keep(conversations) {
    for (let left = conversations.slice(0, MOST); ; left = left.slice(0, -1)) {
        try {
            localStorage.setItem(NAME, JSON.stringify(left));
            return;
        } catch {
            if (!left.length) {
                return; // a browser that keeps nothing
            }
        }
    }
}

/** Keep a conversation, or what was added to it. `turns`: each a question and what `Column.saved` returns. */
export function remember(id, model, turns) {
    const others = kept().filter((one) => one.id !== id);
    keep([{ id, model, time: new Date().toISOString(), turns }, ...others]);
}

/** Show the conversations in a dialog. `open`: called with one that is chosen. */
export function showHistory(open) {
    const list = element("ul", { class: "history" });
    const none = element("p", {}, "There are none yet. They are kept in this browser alone.");
    const quiet = (name, click) => element("button", { type: "button", class: "quiet", click }, name);
    const all = element(
        "div",
        { class: "buttons" },
        quiet("Delete all", () => confirm("Delete all conversations in this browser?") && keepAndShow([])),
        quiet("Save as JSON", () =>
            save("conversations.json", "application/json", JSON.stringify(kept(), null, 2)),
        ),
        element("form", { method: "dialog" }, element("button", { class: "primary" }, "Close")),
    );
    const title = element("h2", { id: "history-title" }, "Conversations");
    const shown = element("dialog", { "aria-labelledby": "history-title" }, title, none, list, all);

    function keepAndShow(conversations) {
        keep(conversations);
        show();
    }

    function show() {
        const found = kept();
        none.hidden = Boolean(found.length);
        all.children[0].hidden = all.children[1].hidden = !found.length;
        list.replaceChildren(...found.map(itemOf));
    }

    function itemOf(one) {
        const question = one.turns[0].question;
        const choose = () => {
            shown.close();
            open(one);
        };
        const remove = () => {
            keepAndShow(kept().filter((other) => other.id !== one.id));
            say("Deleted");
            (list.querySelector("button") ?? all.querySelector(".primary")).focus();
        };
        const about = `${new Date(one.time).toLocaleString()} · ${counted(one.turns.length, "question")}`;
        const name = element("span", { dir: "auto" }, question);
        return element(
            "li",
            {},
            element("button", { type: "button", class: "open", click: choose }, name, element("small", {}, about)),
            element(
                "button",
                { type: "button", class: "quiet small", "aria-label": `Delete ${question}`, click: remove },
                "Delete",
            ),
        );
    }

    shown.addEventListener("close", () => shown.remove());
    document.body.append(shown);
    show();
    shown.showModal();
}
