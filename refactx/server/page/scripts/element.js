/** Elements of the page, whose texts are text and never markup. */

/**
 * Return a new element. `given`: attributes by name; `class` and `data-...` among them; a function is the listener of
 * the event of that name; null, undefined and false are left out. `children`: elements and texts.
 */
export function element(tag, given = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
        if (value === null || value === undefined || value === false) {
            continue;
        }
        if (typeof value === "function") {
            made.addEventListener(name, value);
        } else {
            made.setAttribute(name, value === true ? "" : value);
        }
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
    return made;
}

/** Return a text that may be written in either direction, kept apart from what stands around it. */
export function isolated(text, given = {}) {
    return element("bdi", given, text);
}

/** Return a number with separators of thousands, and the noun in its form: `counted(1, "fact")` is "1 fact". */
export function counted(number, noun, plural = `${noun}s`) {
    return `${number.toLocaleString("en")} ${number === 1 ? noun : plural}`;
}

/** Say something to people who use a screen reader. */
export function say(text) {
    document.getElementById("said").textContent = text;
}
