/** Conversations that this browser keeps, which can be searched, named, opened again, deleted, and saved as JSON. */

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
    const all = kept();
    const name = all.find((one) => one.id === id)?.name;
    keep([{ id, name, model, time: new Date().toISOString(), turns }, ...all.filter((one) => one.id !== id)]);
}

const nameOf = (one) => one.name || one.turns[0].question;

/** Return the conversations that have all words of a text in their names, questions or answers. */
function matching(conversations, text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return conversations.filter((one) => {
        const texts = one.turns.flatMap((turn) => [turn.question, turn.result?.answer ?? turn.text]);
        const whole = [nameOf(one), ...texts].join("\n").toLowerCase();
        return words.every((word) => whole.includes(word));
    });
}

/** Show the conversations in a dialog. `open`: called with one that is chosen. */
export function showHistory(open) {
    const list = element("ul", { class: "history" });
    const none = element("p", {});
    const search = element("input", {
        type: "search",
        "aria-label": "Search the conversations",
        placeholder: "Search",
        dir: "auto",
        autocomplete: "off",
        input: () => show(),
    });
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
    const about = { class: "wide", "aria-labelledby": "history-title" };
    const shown = element("dialog", about, title, search, none, list, all);

    function keepAndShow(conversations) {
        keep(conversations);
        show();
    }

    function show() {
        const every = kept();
        const found = matching(every, search.value);
        none.textContent = every.length
            ? "No conversation has these words."
            : "There are none yet. They are kept in this browser alone.";
        none.hidden = Boolean(found.length);
        search.hidden = all.children[0].hidden = all.children[1].hidden = !every.length;
        list.replaceChildren(...found.map(itemOf));
        say(search.value ? counted(found.length, "conversation") : "");
    }

    function itemOf(one) {
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
        const name = element("span", { dir: "auto" }, nameOf(one));
        const small = (label, click) =>
            element(
                "button",
                { type: "button", class: "quiet small", "aria-label": `${label} ${nameOf(one)}`, click },
                label,
            );
        const item = element(
            "li",
            {},
            element("button", { type: "button", class: "open", click: choose }, name, element("small", {}, about)),
            small("Rename", () => item.replaceChildren(fieldOf(one))),
            small("Delete", remove),
        );
        return item;
    }

    /** Return a form that gives a conversation a name; without one it is called after its first question. */
    function fieldOf(one) {
        const field = element("input", { "aria-label": "Name", maxlength: "200", dir: "auto", autocomplete: "off" });
        field.value = nameOf(one);
        const submit = (event) => {
            event.preventDefault();
            const given = field.value.trim();
            keepAndShow(kept().map((other) => (other.id === one.id ? { ...other, name: given || undefined } : other)));
            say("Renamed");
            search.focus();
        };
        const keydown = (event) => {
            if (event.key === "Escape") {
                event.preventDefault();
                show();
                search.focus();
            }
        };
        field.addEventListener("keydown", keydown);
        setTimeout(() => field.select());
        return element("form", { class: "rename", submit }, field, element("button", { class: "quiet small" }, "Save"));
    }

    shown.addEventListener("close", () => shown.remove());
    document.body.append(shown);
    show();
    shown.showModal();
}
