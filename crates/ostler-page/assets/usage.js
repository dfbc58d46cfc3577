// Tokens and cost: stacked bars, and the same as a table.
import {el, field, oneLine, options, remember, replace, safeString, svg, table, throttled} from "./dom.js";
import {COUNTERS, compact, cost, costSource, costSpan, dollars, shortPath, tokensOf, tokensSpan, whole} from "./format.js";
import {get, problemBox} from "./api.js";
import {daysAgo} from "./search.js";

const BY = [["day", "Day"], ["agent", "Agent"], ["model", "Model"], ["dir", "Directory"]];
const BY_NAMES = Object.fromEntries(BY);
const RANGES = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["", "All time"]];
const SERIES = 6;

export class UsageView {
	constructor(app, query) {
		this.app = app;
		app.setTitle("Usage");
		const choice = (pairs, value) => options(el("select"), pairs, value);
		this.by = choice(BY, query.get("by") ?? "day");
		const from = (name, otherwise) => (query.get(name) ?? otherwise).replace(/^(none|all)$/, "");
		this.split = choice([["", "Nothing"], ...BY.slice(1)], from("split", "agent"));
		this.days = choice(RANGES, from("days", "30"));
		this.measure = choice([["cost", "Cost"], ["tokens", "Tokens"]], query.get("measure") ?? "cost");
		this.total = el(".totals");
		this.chart = el(".chart");
		this.table = el(".usagetable.scroll", {tabindex: 0, role: "region", "aria-label": "Usage table", hidden: true});
		const form = el("form.filters.labelled", {onchange: () => this.load(), onsubmit: () => this.load()},
			field("Per", this.by), field("Split by", this.split), field("Period", this.days), field("Measure", this.measure));
		this.later = throttled(() => this.load(), 2000);
		this.node = el(".page", el("h1", "Usage"), form, this.total, this.chart, this.table);
	}

	start() {
		this.load();
		this.off = this.app.live.on(events => {
			if (events.some(event => event.type === "turn_ended")) this.later();
		});
	}

	destroy() {
		this.dead = true;
		this.later.cancel();
		this.off?.();
	}

	async load() {
		const turn = (this.turn = (this.turn ?? 0) + 1);
		const by = this.by.value;
		const split = this.split.value === by ? "" : this.split.value;
		const days = this.days.value;
		remember("#/usage", {by, split: this.split.value || "none", days: days || "all", measure: this.measure.value});
		this.command = "ostler usage --by " + by + (split && " --split " + split) + (days && " --since " + days + "d");
		try {
			const report = await get("/v1/usage", {by, split, since: daysAgo(days)});
			if (!this.dead && turn === this.turn) this.draw(report);
		} catch (error) {
			if (!this.dead && turn === this.turn) replace(this.chart, problemBox(error, () => this.load()));
		}
	}

	value(group) {
		return (this.measure.value === "cost" ? group.usage?.cost_usd : tokensOf(group.usage)) ?? 0;
	}

	draw(report) {
		const total = report.total ?? {};
		const figure = (text, name, title) => el("div", {title}, el("span.figure", text), el("span.hint", name));
		replace(this.total, figure(cost(total.usage), "cost", "Cost " + costSource(total.usage)),
			figure(compact(tokensOf(total.usage)), "tokens", whole(tokensOf(total.usage))),
			figure(whole(total.sessions ?? 0), "sessions"), figure(whole(total.turns ?? 0), "turns"));
		const groups = report.groups ?? [];
		const known = this.measure.value === "cost" ? "No cost is known" : "No tokens are known";
		if (groups.some(group => this.value(group) > 0)) this.drawChart(report, groups);
		else replace(this.chart, el("p.empty", groups.length ? known + " for this period." : "No usage in this period."));
		this.table.hidden = groups.length === 0;
		this.drawTable(report, groups);
	}

	name(key, by = this.by.value) {
		if (key == null || key === "") return "unknown";
		return by === "dir" ? shortPath(key) : String(key);
	}

	drawChart(report, groups) {
		const sums = new Map();
		for (const group of groups) {
			for (const part of partsOf(group)) sums.set(part.key, (sums.get(part.key) ?? 0) + this.value(part));
		}
		const order = [...sums.entries()].sort((a, b) => b[1] - a[1]).map(([key]) => key);
		const series = order.slice(0, order.length > SERIES ? SERIES - 1 : SERIES);
		const rank = key => (series.includes(key) ? series.indexOf(key) : SERIES - 1);
		const byCost = this.measure.value === "cost";
		const unit = byCost ? dollars : compact;
		const byDay = report.by === "day";
		const bars = byDay ? fillDays(groups, this.days.value) : [...groups].sort((a, b) => this.value(b) - this.value(a)).slice(0, 20);
		const most = niceTop(Math.max(...bars.map(group => this.value(group)), 1e-9));
		const drawing = byDay ? this.columns(bars, most, rank, unit) : this.lines(bars, most, rank, unit);
		const top = bars.reduce((top, group) => (this.value(group) > this.value(top) ? group : top));
		const names = series.map(key => oneLine(this.name(key, report.split)));
		if (order.length > SERIES) names.push("others");
		const legend = report.split && el("ul.legend", names.map((name, index) => el("li", el("span", {class: "swatch s" + index}), name)));
		const what = byCost ? "Cost" : "Tokens";
		if (byDay) drawing.setAttribute("aria-label", what + " per day: " + unit(this.value(report.total)) + " in all, at most " + unit(this.value(top)) + " on " + top.key);
		replace(this.chart, el("figure", el("figcaption", what + " per " + BY_NAMES[report.by].toLowerCase(),
			el("span.hint", " The table below has the same figures.")), drawing, legend));
	}

	stack(group, rank) {
		return partsOf(group).map(({key, ...part}) => ({key, rank: rank(key), value: this.value(part)}))
			.filter(part => part.value > 0).sort((a, b) => a.rank - b.rank);
	}

	piece(part, x, y, width, height, name, unit) {
		const [left, top, wide, tall] = [x, y, width, height].map(value => value.toFixed(1));
		return svg("rect", {class: "s" + part.rank, x: left, y: top, width: wide, height: tall},
			svg("title", safeString(name + ": " + unit(part.value))));
	}

	columns(bars, most, rank, unit) {
		const width = Math.max(320, this.total.clientWidth);
		const height = 220;
		const left = 56;
		const base = height - 24;
		const step = (width - left) / bars.length;
		const drawing = svg("svg", {viewBox: "0 0 " + width + " " + height, class: "bars", role: "img"});
		for (let i = 0; i <= 4; i++) {
			const y = base - ((base - 12) * i) / 4;
			drawing.append(svg("path", {class: "gridline", d: "M" + left + " " + y + "H" + width}),
				svg("text", {x: left - 8, y: y + 4, "text-anchor": "end"}, unit((most * i) / 4)));
		}
		const every = Math.ceil((bars.length * 56) / width);
		bars.forEach((group, index) => {
			const x = left + index * step + step * 0.14;
			let y = base;
			for (const part of this.stack(group, rank)) {
				const tall = (part.value / most) * (base - 12);
				y -= tall;
				drawing.append(this.piece(part, x, y, step * 0.72, Math.max(0.5, tall), this.name(group.key) + (part.key ? " · " + part.key : ""), unit));
			}
			if ((bars.length - 1 - index) % every === 0) drawing.append(svg("text", {x: (x + step * 0.36).toFixed(1), y: height - 6, "text-anchor": "middle"}, String(group.key).slice(5)));
		});
		return drawing;
	}

	lines(bars, most, rank, unit) {
		return el(".hbars", {"aria-hidden": "true"}, bars.map(group => {
			const drawing = svg("svg", {viewBox: "0 0 1000 16", preserveAspectRatio: "none"});
			let x = 0;
			for (const part of this.stack(group, rank)) {
				const wide = (part.value / most) * 1000;
				drawing.append(this.piece(part, x, 0, Math.max(1, wide), 16, part.key || this.name(group.key), unit));
				x += wide;
			}
			return el("div", el("span", {title: safeString(group.key)}, oneLine(this.name(group.key))), drawing, el("span.num", unit(this.value(group))));
		}));
	}

	drawTable(report, groups) {
		const head = [BY_NAMES[report.by], "Sessions", "Turns", ...COUNTERS.map(([, name]) => name), "Tokens", "Cost"];
		const row = (group, name, kind) => el("tr", {class: kind}, el("th", {scope: "row", title: safeString(group.key ?? "")}, name),
			[group.sessions, group.turns].map(value => el("td.num", whole(value ?? null))),
			COUNTERS.map(([key]) => el("td.num", {title: whole(group.usage?.[key])}, compact(group.usage?.[key]))),
			el("td.num", tokensSpan(group.usage)), el("td.num", costSpan(group.usage)));
		const ordered = report.by === "day" ? [...groups].sort((a, b) => (a.key < b.key ? 1 : -1)) : groups;
		const rows = ordered.flatMap(group => [row(group, oneLine(this.name(group.key)), ""),
			...(group.parts?.length > 1 ? group.parts : []).map(part => row(part, oneLine(this.name(part.key, report.split)), "part"))]);
		const caption = ["The same figures as ", el("code", this.command)];
		replace(this.table, table("grid.numbers", caption, head, rows, row(report.total ?? {}, "Total", "")));
	}
}

function partsOf(group) {
	return group.parts ?? [{...group, key: ""}];
}

// Days without usage are shown too.
function fillDays(groups, days) {
	const known = new Map(groups.map(group => [group.key, group]));
	const keys = [...known.keys()].filter(key => /^\d{4}-\d\d-\d\d$/.test(key)).sort();
	if (keys.length === 0) return groups;
	const out = [];
	const last = new Date();
	let day = new Date(keys[0] + "T00:00:00Z");
	if (days) day = new Date(Math.min(day, Date.now() - (Number(days) - 1) * 86400000));
	for (let i = 0; day <= last && i < 400; i++, day = new Date(day.getTime() + 86400000)) {
		const key = day.toISOString().slice(0, 10);
		out.push(known.get(key) ?? {key, usage: {}, parts: []});
	}
	return out.slice(-Math.max(60, Number(days) || 120));
}

function niceTop(value) {
	const power = 10 ** Math.floor(Math.log10(value));
	for (const step of [1, 2, 4, 5, 8, 10]) if (value <= step * power) return step * power;
	return 10 * power;
}
