/** A text while it is written, line by line: facts grey until they are whole and then links, and the answer bold. */

import { element } from "./element.js";
import { factUrl, link, textOf, writtenName } from "./names.js";

const TRIGGER = /\S+:\s*$/; // the text before a fact, such as `Fact:`
const ANSWER = /^\s*(Answer:)\s*/;
const QUERY = /^\s*Query:/;

export class WrittenText {
    /**
     * `onFact`: called with the link and the line of each fact that is whole, and the fact. `hasAnswer`: whether a line
     * with `Answer:` is the answer.
     */
    constructor(onFact = () => {}, hasAnswer = true) {
        this.hasAnswer = hasAnswer;
        this.root = element("div", { class: "written" });
        this.text = "";
        this.onFact = onFact;
        this.fact = null; // the element of a fact that is being written
        this.newLine();
    }

    /** Write a piece of text outside of facts. */
    add(text) {
        this.text += text;
        const [first, ...others] = text.split("\n");
        this.pen.append(first);
        this.recognise();
        for (const other of others) {
            this.newLine();
            this.pen.append(other);
            this.recognise();
        }
    }

    /** Write a piece of a fact. */
    addToFact(text) {
        this.text += text;
        if (this.fact === null) {
            const trigger = this.takeTrigger();
            this.fact = element(
                "span",
                { class: "fact writing" },
                trigger && element("span", { class: "trigger" }, trigger),
            );
            this.pen.append(this.fact);
        }
        this.fact.append(text);
    }

    /** Take note that the fact is whole. */
    complete(fact) {
        const shown = factLink(fact);
        const trigger = this.fact.querySelector(".trigger");
        this.fact.className = "fact whole";
        this.fact.replaceChildren(...(trigger ? [trigger, " "] : []), shown, " .");
        this.line.classList.add("with-fact");
        this.onFact(shown, this.line, fact);
        this.fact = null;
    }

    /** Write an element into the line. `text`: what it stands for. */
    place(made, text) {
        this.text += text;
        this.pen.append(made);
    }

    /** Take note that nothing follows. `answer`: the final one, empty if there is none. */
    end(answer = "", isUnknown = false) {
        this.fact?.classList.replace("writing", "unfinished");
        const lines = [...this.root.children];
        const last = lines.at(-1);
        if (
            answer &&
            !this.root.querySelector(".answer") &&
            last.textContent.endsWith(answer) &&
            !last.children.length
        ) {
            this.markAnswer(last, last.textContent.slice(0, -answer.length));
        }
        this.root.querySelector(".answer")?.classList.toggle("unknown", isUnknown);
        for (const line of lines.filter((one) => !one.textContent.trim())) {
            line.remove();
        }
    }

    /** Begin anew. */
    clear() {
        this.text = "";
        this.fact = null;
        this.root.replaceChildren();
        this.newLine();
    }

    newLine() {
        this.line = this.pen = element("p", { class: "line", dir: "auto" });
        this.root.append(this.line);
    }

    /** Give a line its form, as soon as its beginning tells what it is. */
    recognise() {
        if (this.line.children.length || !this.hasAnswer) {
            return;
        }
        const found = ANSWER.exec(this.line.textContent);
        if (found) {
            for (const before of this.root.querySelectorAll(".answer")) {
                before.classList.remove("answer"); // the last one counts
            }
            this.markAnswer(this.line, found[0]);
        } else if (QUERY.test(this.line.textContent)) {
            this.line.classList.add("with-query");
        }
    }

    markAnswer(line, marker) {
        const rest = line.textContent.slice(marker.length);
        this.pen = element("strong", {}, rest);
        line.classList.add("answer");
        line.replaceChildren(element("span", { class: "marker" }, marker), this.pen);
    }

    takeTrigger() {
        const node = this.pen.lastChild;
        const found = node?.nodeType === Node.TEXT_NODE ? TRIGGER.exec(this.pen.textContent) : null;
        if (!found || this.pen.children.length) {
            return "";
        }
        this.pen.textContent = this.pen.textContent.slice(0, found.index);
        return found[0].trimEnd();
    }
}

/** Return a fact as a link, in the form in which it is written. */
export function factLink(fact, given = {}) {
    const more = (fact.qualifiers ?? []).flatMap((one) => [one.predicate, one.value]);
    const parts = [fact.subject, fact.predicate, fact.object, ...more].map((part) =>
        element("span", { class: "part" }, bracket("<"), writtenName(textOf(part)), bracket(">")),
    );
    const spaced = parts.flatMap((part, at) => (at ? [" ", part] : [part]));
    return link(factUrl(fact), { class: "fact-link", ...given }, ...spaced);
}

function bracket(text) {
    return element("span", { class: "bracket" }, text);
}
