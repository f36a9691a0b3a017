/** A question with its answer, and if people compare, the answer without facts beside it. */

import { Column } from "./column.js";
import { copyButton } from "./copy.js";
import { element } from "./element.js";
import { feedbackButtons, takesFeedback } from "./feedback.js";
import { markdownOf } from "./markdown.js";
import { address } from "./names.js";

export class Turn {
    /** `again`: called to ask the question once more, after an error. */
    constructor(question, again) {
        this.question = question;
        this.again = again;
        this.grounded = new Column(false);
        this.free = null;
        this.columns = element("div", { class: "columns" }, this.grounded.root);
        this.actions = element("div", { class: "actions", hidden: true });
        const title = element("h2", { class: "question", dir: "auto" }, question);
        this.root = element("article", { class: "turn" }, title, this.columns, this.actions);
    }

    /** What follows in the conversation: the question and its answer. `isFree`: that without facts, if there is one. */
    messages(isFree) {
        const text = (isFree && this.free?.text) || this.grounded.text;
        const asked = { role: "user", content: this.question };
        return text ? [asked, { role: "assistant", content: text }] : [];
    }

    /** Write the answer with facts. `before`: the messages before the question. */
    async writeGrounded(model, before, signal) {
        this.actions.hidden = true;
        await this.grounded.write(model, this.conversation(before), signal, this.again);
        await this.showActions();
    }

    /** Show the answer with facts that was kept. */
    async restore(saved) {
        await this.grounded.restore(saved);
        await this.showActions();
    }

    /** Write the answer without facts. */
    async writeFree(model, before, signal, again) {
        this.free?.root.remove();
        this.free = new Column(true);
        this.columns.append(this.free.root);
        await this.free.write(`${model}:free`, this.conversation(before), signal, again);
    }

    conversation(before) {
        return [...before, { role: "user", content: this.question }];
    }

    async showActions() {
        const { text, result } = this.grounded;
        if (text) {
            this.actions.replaceChildren(
                copyButton("Copy as Markdown", () => markdownOf(this.question, text, result)),
                copyButton("Copy link", () => new URL(questionUrl(this.question), location.href).href),
            );
            this.actions.hidden = false;
            if (await takesFeedback()) {
                this.actions.append(...feedbackButtons(this.question, text, result));
            }
        }
    }
}

/** Return the address that asks a question. */
export function questionUrl(question, compares = false) {
    return address("/", { q: question, compare: compares ? "1" : "" });
}
