/** Names of the index, proposed while one is written in angle brackets. */

import { element, say } from "./element.js";
import { nameOf } from "./names.js";
import { get } from "./server.js";

const SHOWN = 8;
const TYPING_MILLISECONDS = 150;
const OPEN_NAME = /<([^<>\n]*)$/; // not yet closed, before the cursor
const SUBJECT = /<([^<>\n]+)>\s+$/; // before the name of a property

/** Let a field propose names in a list. Arrows choose, Enter or Tab takes one, Escape closes the list. */
export function completeNames(field, list) {
    let [timer, chosen, names, last] = [0, -1, [], null];

    function close() {
        clearTimeout(timer);
        last?.abort();
        list.hidden = true;
        field.removeAttribute("aria-activedescendant");
    }

    function choose(at) {
        chosen = at;
        [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
        field.setAttribute("aria-activedescendant", `name-${at}`);
        say(`${names[at]}, ${at + 1} of ${names.length}`);
    }

    async function propose() {
        const before = field.value.slice(0, field.selectionStart);
        const open = OPEN_NAME.exec(before);
        if (!open?.[1].trim()) {
            return close();
        }
        last?.abort();
        last = new AbortController();
        const { signal } = last;
        names = await namesFor(open[1], SUBJECT.exec(before.slice(0, open.index))?.[1], signal).catch(() => []);
        if (signal.aborted) {
            return;
        }
        if (!names.length) {
            return close();
        }
        const pointerdown = (event) => event.preventDefault(); // the field keeps the focus
        const items = names.map((name, at) =>
            element("li", { role: "option", id: `name-${at}`, pointerdown, click: () => take(at) }, nameOf(name)),
        );
        list.replaceChildren(...items);
        list.hidden = false;
        choose(0);
    }

    function take(at) {
        const cursor = field.selectionStart;
        const start = cursor - OPEN_NAME.exec(field.value.slice(0, cursor))[1].length;
        const isClosed = field.value[cursor] === ">";
        field.setRangeText(names[at] + (isClosed ? "" : ">"), start, cursor, "end");
        field.dispatchEvent(new Event("change"));
        close();
        field.focus();
    }

    field.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(propose, TYPING_MILLISECONDS);
    });
    field.addEventListener("blur", close);
    field.addEventListener("keydown", (event) => {
        if (list.hidden || event.ctrlKey || event.metaKey) {
            return;
        }
        const step = { ArrowDown: 1, ArrowUp: names.length - 1 }[event.key];
        const act = step
            ? () => choose((chosen + step) % names.length)
            : { Enter: () => take(chosen), Tab: () => take(chosen), Escape: close }[event.key];
        if (act) {
            event.preventDefault();
            act();
        }
    });
}

/** Return the names that begin with a text: of properties of the subject before it, or else of things. */
async function namesFor(text, subject, signal) {
    if (subject) {
        const { properties } = await get("/v1/facts", { subject, limit: 1000 }, signal);
        const wanted = text.toLowerCase();
        const found = properties.map((one) => one.label).filter((label) => label.toLowerCase().startsWith(wanted));
        if (found.length) {
            return found.slice(0, SHOWN);
        }
    }
    for (const prefix of [`<${text}`, `<${text.charAt(0).toUpperCase()}${text.slice(1)}`]) {
        const { completions } = await get("/v1/facts", { prefix, limit: SHOWN }, signal);
        if (completions.length) {
            return completions.map((one) => one.text.slice(1, -1));
        }
    }
    return [];
}
