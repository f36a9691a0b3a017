/** The lists of the page that walks the index. Each is an element made of what the server replied. */

import { counted, element, isolated } from "./element.js";
import { exploreUrl, link, nameOf, qualifiersOf, referencesOf, siteOf, sourceUrl, split, textOf } from "./names.js";

/** Return subjects, those with most facts first. `state`: what the page shows, which they keep. */
export function subjectList(found, state) {
    const items = found.completions.map(({ text, facts }) => {
        const name = text.slice(1, -1);
        return item(exploreUrl(name, "", state.prefix), nameOf(name), facts);
    });
    return element("ul", { class: "items" }, ...items);
}

/** Return names that are like one that the index does not have. */
export function nearList(names, state) {
    const items = names.map((name) => item(exploreUrl(name, "", state.prefix), nameOf(name)));
    return element(
        "div",
        {},
        element("p", { class: "soft" }, "Names like this one:"),
        element("ul", { class: "items" }, ...items),
    );
}

/** Return the heading of a subject: its name, its description, and its page. */
export function subjectHead(subject, facts) {
    const { label, about } = split(subject.label);
    const page = subject.url && pageLink(subject.url, subject.id);
    return element(
        "div",
        { class: "head" },
        element("p", { class: "head-name", dir: "auto" }, label),
        about && element("p", { class: "soft", dir: "auto" }, about),
        element("p", { class: "soft" }, page, page && " · ", counted(facts, "fact")),
    );
}

/** Return the properties of a subject: its own, and those of other subjects that lead back to it. */
export function propertyList(found, state) {
    const of = (isInverse) =>
        found.properties.filter((one) => one.inverse === isInverse).sort((a, b) => a.label.localeCompare(b.label));
    const list = (properties) =>
        properties.map((one) =>
            item(
                exploreUrl(state.subject, one.label, state.prefix),
                isolated(one.label, { class: "label" }),
                one.facts,
            ),
        );
    const [own, inverse] = [of(false), of(true)];
    return element(
        "div",
        {},
        own.length > 0 && element("ul", { class: "items" }, ...list(own)),
        inverse.length > 0 && element("h3", {}, "Said of it by other subjects"),
        inverse.length > 0 && element("ul", { class: "items" }, ...list(inverse)),
    );
}

/** Return the heading of a property. */
export function propertyHead(property, state) {
    const page = property.url && pageLink(property.url, property.id);
    const values = counted(property.facts, "value");
    const note = property.inverse ? " · said on the page of the value" : "";
    return element(
        "div",
        { class: "head" },
        element("p", { class: "head-name", dir: "auto" }, property.label),
        element("p", { class: "soft" }, "of ", isolated(split(state.subject).label)),
        element("p", { class: "soft" }, page, page && " · ", values, note),
    );
}

/** Return the values of a property, each with its statement. */
export function valueList(found, state) {
    const items = found.facts.map((fact) => {
        const name = textOf(fact.object);
        const isSubject = fact.object.literal === undefined;
        const shown = isSubject
            ? link(exploreUrl(name, "", state.prefix), { class: "go" }, nameOf(name))
            : element("span", { class: "go literal", dir: "auto" }, name);
        const url = sourceUrl(fact);
        const source = url && link(url, { class: "source", "aria-label": `${name}: on ${siteOf(url)}` }, "↗");
        const said = qualifiersOf(fact);
        shown.append(...(said ? [element("span", { class: "about", dir: "auto" }, said)] : []));
        return element("li", {}, shown, referencesOf(fact), source);
    });
    return element("ul", { class: "items" }, ...items);
}

function item(url, name, count) {
    const shown =
        count === undefined
            ? null
            : element(
                  "span",
                  { class: "count" },
                  element("span", { class: "unseen" }, ", "),
                  count.toLocaleString("en"),
                  element("span", { class: "unseen" }, " facts"),
              );
    return element("li", {}, link(url, { class: "go" }, name, shown));
}

function pageLink(url, id) {
    return link(
        url,
        {},
        id,
        element("span", { "aria-hidden": "true" }, " ↗"),
        element("span", { class: "unseen" }, ` on ${siteOf(url)}`),
    );
}
