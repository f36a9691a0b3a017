/** Questions that the index can answer, for people who do not know yet what it has. */

import { counted, element, isolated } from "./element.js";
import { get } from "./server.js";
import { questionUrl } from "./turn.js";

const SHOWN = 4;

/** Show examples, and what the index is. `ask`: called with a question that is chosen. Throws what the request does. */
export async function showExamples(ask) {
    const found = await get("/v1/examples", { limit: SHOWN });
    const items = found.examples.map(({ question }) => {
        const shown = element(
            "a",
            { href: questionUrl(question), dir: "auto", click: (event) => choose(event, question) },
            question,
        );
        return element("li", {}, shown);
    });
    document.getElementById("examples-list").replaceChildren(...items);
    document.getElementById("examples").hidden = !items.length;
    const about = [" ", isolated(found.index, { class: "index-name" }), ` (${counted(found.size, "fact")})`];
    document.getElementById("about-index").replaceChildren(...about);

    function choose(event, question) {
        if (!event.metaKey && !event.ctrlKey && !event.shiftKey) {
            event.preventDefault();
            ask(question);
        }
    }
}
