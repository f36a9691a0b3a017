/** The choice among the models of a server that has several, in the head of each page. */

import { element } from "./element.js";
import { chosen, keepChoice } from "./names.js";

/** Return the name of the model that answers: the chosen one, else the first. `models`: as the server lists them.
 *
 * Empty if the page opens anew, as what was chosen is no whole name of a model. */
export function showChoice(models) {
    const facts = models.filter((one) => one.refactx?.variant === "facts");
    const names = facts.map((one) => one.id);
    if (chosen && !names.includes(chosen)) {
        correct(meant(chosen.replace(/:(answer|free)$/, ""), facts));
        return "";
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

/** Return the model that the server takes for a name without an index, or for an index; empty: it has neither. */
function meant(name, models) {
    const found =
        models.find((one) => one.id === name) ??
        models.find((one) => one.id === `${name}@${one.refactx.index}`) ??
        models.find((one) => one.refactx.index === name);
    return found?.id ?? "";
}

/** Open the page anew with what its address should have said. */
function correct(name) {
    const given = new URLSearchParams(location.search);
    given.delete("model");
    if (name) {
        given.set("model", name);
    }
    keepChoice(name);
    location.replace(`${location.pathname}?${given}`);
}
