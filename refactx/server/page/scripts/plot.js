/** Plots of rows whose values are numbers, dates or places, as SVG of our own. The rows themselves are beside them. */

import { element } from "./element.js";
import { split } from "./names.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_BARS = 30;
const MOST_MARKS = 2000;
const MOST_NAMES = 20; // beside places
const [WIDEST, HEIGHT, ROW] = [640, 300, 22];
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 16, 12, 28];
const LETTER = 7; // pixels of a letter, about
const STEPS = [1, 2, 5, 10];

const readers = {
    place: (text) => {
        const found = /^Point\(\s*(-?[\d.]+)\s+(-?[\d.]+)\s*\)$/i.exec(text);
        return found && [Number(found[1]), Number(found[2])];
    },
    number: (text) => (/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : null),
    date: (text) => {
        const found = /^([+-]?\d{4,6})-(\d\d)(?:-(\d\d))?/.exec(text);
        return found && Number(found[1]) + (Math.max(1, found[2]) - 1) / 12 + (Math.max(1, found[3] ?? 1) - 1) / 365;
    },
};

/** Return a plot of rows of texts, folded open; null if there is nothing to draw. */
export function plotOf(columns, rows) {
    if (rows.length < 2) {
        return null;
    }
    const kinds = columns.map((_, at) => kindOf(rows.map((row) => row[at])));
    const value = (kind, row, at) => readers[kind](row[at]);
    const at = { place: kinds.indexOf("place"), number: kinds.indexOf("number"), date: kinds.indexOf("date") };
    const label = Math.max(0, kinds.indexOf("text"));
    const name = (row) => split(row[label]).label;
    const full = rows.filter((row) => kinds.every((kind, column) => kind === "text" || row[column]));
    const second = kinds.indexOf("number", at.number + 1);
    const across = at.date >= 0 ? at.date : second >= 0 ? at.number : -1;
    const up = at.date >= 0 ? at.number : second;
    if (at.place >= 0) {
        const points = full.map((row) => [...value("place", row, at.place), name(row)]);
        return figure("Map", `Places of ${columns[label]}`, mapOf(points));
    }
    if (across >= 0 && up >= 0) {
        const points = full.map((row) => [value(kinds[across], row, across), value("number", row, up), row.join(", ")]);
        return figure("Plot", `${columns[up]} by ${columns[across]}`, scatter(points));
    }
    const only = Math.max(at.number, at.date);
    if (only < 0 || full.length < 2) {
        return null;
    }
    const bars = full.slice(0, MOST_BARS).map((row) => [name(row), value(kinds[only], row, only), row[only]]);
    return figure("Plot", `${columns[only]} by ${columns[label]}`, barsOf(bars, kinds[only] === "date"));
}

/** Return what all values of a column are, without those that are empty: a place, a number, a date, or text. */
function kindOf(texts) {
    const given = texts.filter(Boolean);
    const fits = ([, read]) => given.length > 1 && given.every((text) => read(text) !== null);
    return Object.entries(readers).find(fits)?.[0] ?? "text";
}

function figure(title, about, drawn) {
    drawn.setAttribute("aria-label", about);
    return element(
        "details",
        { class: "plot", open: true },
        element("summary", {}, title),
        element("figure", {}, drawn, element("figcaption", {}, about)),
    );
}

function svg(tag, given = {}, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(given)) {
        made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

/** Return what puts numbers onto pixels, and round numbers for lines between them. */
function scale(numbers, from, to) {
    let [low, high] = numbers.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
    const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
    [low, high] = [low - room, high + room];
    const power = 10 ** Math.floor(Math.log10((high - low) / 5));
    const step = STEPS.map((one) => one * power).find((one) => (high - low) / one <= 6);
    const first = Math.ceil(low / step);
    const ticks = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => (first + at) * step);
    return { at: (one) => from + ((one - low) / (high - low)) * (to - from), ticks };
}

const shown = (number, unit) => {
    const rounded = Number(number.toPrecision(12));
    const isYear = Math.abs(rounded) < 10_000;
    return (isYear ? String(rounded) : rounded.toLocaleString("en", { notation: "compact" })) + unit;
};

/** Return the width of a plot, so that its letters are not smaller on a phone. */
const widthNow = () => Math.min(WIDEST, document.documentElement.clientWidth - 32);

/** Return places, by longitude and latitude, with degrees of one size. */
function mapOf(points) {
    const sides = [widthNow() - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
    const ends = sides.map((_, side) => {
        const numbers = points.map((one) => one[side]);
        return [Math.min(...numbers), Math.max(...numbers)];
    });
    const degree = Math.max(0.01, ...ends.map(([low, high], side) => (high - low) / sides[side])); // of a pixel
    const wide = ends.map(([low, high], side) => {
        const half = (degree * sides[side]) / 2;
        return [(low + high) / 2 - half, (low + high) / 2 + half];
    });
    return scatter(points, wide, "°", points.length <= MOST_NAMES);
}

function scatter(points, ends = [], unit = "", hasNames = false) {
    const width = widthNow();
    const x = scale(ends[0] ?? points.map((one) => one[0]), LEFT, width - RIGHT);
    const y = scale(ends[1] ?? points.map((one) => one[1]), HEIGHT - BOTTOM, TOP);
    const nameAt = ([a, b, name]) => {
        const isRight = x.at(a) + 8 + name.length * LETTER > width;
        const given = { x: x.at(a) + (isRight ? -8 : 8), y: y.at(b) + 4, "text-anchor": isRight ? "end" : "start" };
        return svg("text", given, name);
    };
    const parts = [
        ...x.ticks.flatMap((one) => [
            svg("line", { x1: x.at(one), x2: x.at(one), y1: TOP, y2: HEIGHT - BOTTOM }),
            svg("text", { x: x.at(one), y: HEIGHT - 8, "text-anchor": "middle" }, shown(one, unit)),
        ]),
        ...y.ticks.flatMap((one) => [
            svg("line", { x1: LEFT, x2: width - RIGHT, y1: y.at(one), y2: y.at(one) }),
            svg("text", { x: LEFT - 8, y: y.at(one) + 4, "text-anchor": "end" }, shown(one, unit)),
        ]),
        ...points
            .slice(0, MOST_MARKS)
            .map(([a, b, name]) => svg("circle", { cx: x.at(a), cy: y.at(b), r: 4 }, svg("title", {}, name))),
        ...(hasNames ? points.map(nameAt) : []),
    ];
    return svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" }, ...parts);
}

/** Return bars from zero, or marks for dates, one below the other. */
function barsOf(bars, areDates) {
    const width = widthNow();
    const left = width / 3;
    const most = Math.floor(left / LETTER) - 2; // letters
    const numbers = bars.map((one) => one[1]);
    const x = scale(areDates ? numbers : [0, ...numbers], left, width - 88);
    const parts = bars.flatMap(([name, number, text], at) => {
        const y = at * ROW;
        const ends = areDates ? [x.at(number) - 2, x.at(number) + 2] : [x.at(0), x.at(number)];
        const [from, to] = ends.sort((a, b) => a - b);
        const label = name.length > most ? `${name.slice(0, most - 1)}…` : name;
        return [
            svg("text", { x: left - 8, y: y + 15, "text-anchor": "end" }, label),
            svg(
                "rect",
                { x: from, y: y + 4, width: Math.max(1, to - from), height: ROW - 8, rx: 2 },
                svg("title", {}, `${name}: ${text}`),
            ),
            svg("text", { x: to + 6, y: y + 15 }, areDates ? text.slice(0, 10) : shown(number, "")),
        ];
    });
    return svg("svg", { viewBox: `0 0 ${width} ${bars.length * ROW}`, role: "img" }, ...parts);
}
