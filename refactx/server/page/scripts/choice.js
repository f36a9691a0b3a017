/** The choice among the models of a server that has several, in the head of each page. */

import { element } from "./element.js";
import { chosen, keepChoice } from "./names.js";

/** Return the name of the model that answers: the chosen one, else the first. `models`: as the server lists them. */
export function showChoice(models) {
    const names = models.filter((one) => one.refactx?.variant === "facts").map((one) => one.id);
    if (chosen && !names.includes(chosen)) {
        choose(""); // of a server that has other ones
    }
    const options = names.map((name) => element("option", { value: name, selected: name === chosen }, name));
    const list = element("select", { id: "choice", change: () => choose(list.value) }, ...options);
    if (names.length > 1) {
        const label = element("label", { class: "theme choice" }, element("span", { class: "unseen" }, "Model"), list);
        document.querySelector(".frame-head .theme").before(label);
    }
    return chosen || names[0];
}

/** Open the page anew with another model: what it shows is of another index. */
export function choose(name) {
    keepChoice(name);
    location.assign(location.pathname);
}
