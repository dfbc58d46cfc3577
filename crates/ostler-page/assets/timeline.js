// Turns, tools, waits and tokens over time, by which one jumps.
import {el, lastIndex, oneLine, safeString, svg, table} from "./dom.js";
import {clockTime, compact, duration, plural} from "./format.js";

const WIDTH = 1000;
const HEIGHT = 40;
const BREAK = 14;

// Long silences between turns take a small space.
function timeAxis(data) {
	const from = Date.parse(data.from);
	const to = Math.max(Date.parse(data.to ?? data.from), from + 1);
	let folds = [];
	let silent = 0;
	let end = null;
	for (const turn of data.turns ?? []) {
		const start = Date.parse(turn.from);
		if (end !== null && start - end > 60000) {
			folds.push({from: end, to: start});
			silent += start - end;
		}
		end = Math.max(end ?? 0, Date.parse(turn.to ?? data.to ?? turn.from));
	}
	if (silent <= (to - from - silent) * 0.3) {
		folds = [];
		silent = 0;
	}
	const scale = Math.max(WIDTH - folds.length * BREAK, WIDTH / 2) / Math.max(1, to - from - silent);
	const x = at => {
		const time = typeof at === "number" ? at : Date.parse(at);
		let position = (Math.min(Math.max(time, from), to) - from) * scale;
		for (const gap of folds) {
			if (time >= gap.to) position += BREAK - (gap.to - gap.from) * scale;
			else if (time > gap.from) position += (time - gap.from) * (BREAK / (gap.to - gap.from) - scale);
		}
		return position;
	};
	const full = x(to);
	return {x: at => (x(at) / full) * WIDTH, folds};
}

function tokenArea(tokens, axis) {
	if (!tokens?.length) return null;
	const most = Math.max(1, ...tokens.map(point => point.total ?? 0));
	let path = "M0 " + HEIGHT;
	for (const point of tokens) {
		const y = HEIGHT - ((point.total ?? 0) / most) * (HEIGHT - 4);
		path += "H" + axis.x(point.at).toFixed(1) + "V" + y.toFixed(1);
	}
	return svg("path", {class: "tokens", d: path + "H" + WIDTH + "V" + HEIGHT + "Z"});
}

function bar(kind, from, to, y, height) {
	return svg("rect", {class: kind, x: from.toFixed(1), y, width: Math.max(1.5, to - from).toFixed(1), height});
}

// The data has at least one turn.
export function timelineStrip(data, jump) {
	const axis = timeAxis(data);
	const turns = data.turns;
	const drawing = svg("svg", {viewBox: "0 0 " + WIDTH + " " + HEIGHT, preserveAspectRatio: "none", "aria-hidden": "true"},
		tokenArea(data.tokens, axis));
	turns.forEach((turn, index) => {
		const failed = turn.cause && turn.cause !== "completed" && turn.cause !== "stopped";
		const kind = "turn" + (index % 2 ? " odd" : "") + (failed ? " bad" : "");
		drawing.append(bar(kind, axis.x(turn.from), axis.x(turn.to ?? data.to), 6, 4));
	});
	for (const [kind, y, height] of [["thinking", 15, 4], ["tool", 15, 9], ["wait", 28, 6]]) {
		for (const part of data.spans ?? []) {
			if (part.kind !== kind) continue;
			drawing.append(bar(kind + (part.ok === false ? " bad" : ""), axis.x(part.from), axis.x(part.to ?? data.to), y, height));
		}
	}
	for (const gap of axis.folds) {
		const x = (axis.x(gap.from) + axis.x(gap.to)) / 2;
		drawing.append(svg("path", {class: "break", d: "M" + x.toFixed(1) + " 2V" + (HEIGHT - 2)}));
	}
	const here = svg("rect", {class: "here", x: -10, y: 0, width: 2, height: HEIGHT});
	drawing.append(here);
	const tip = el(".tip", {hidden: true});
	const points = jumpPoints(data, axis);
	let current = 0;
	const point = index => {
		current = Math.min(Math.max(0, index), points.length - 1);
		slider.setAttribute("aria-valuenow", String(current + 1));
		slider.setAttribute("aria-valuetext", safeString(points[current].label));
		here.setAttribute("x", points[current].x.toFixed(1));
	};
	// The next turn in a direction.
	const turn = by => {
		let index = current + by;
		while (points[index] && !points[index].isTurn) index += by;
		return index;
	};
	const near = event => {
		const box = slider.getBoundingClientRect();
		const x = ((event.clientX - box.left) / box.width) * WIDTH;
		const best = points.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best));
		return {best, box};
	};
	const slider = el(".strip", {
		role: "slider", tabindex: 0, "aria-label": "Timeline", "aria-valuemin": 1, "aria-valuemax": points.length,
		onpointermove: event => {
			const {best, box} = near(event);
			tip.replaceChildren(oneLine(best.label));
			tip.hidden = false;
			tip.style.left = Math.max(0, Math.min(event.clientX - box.left - 80, box.width - 240)) + "px";
		},
		onpointerleave: () => (tip.hidden = true),
		onclick: event => jump(near(event).best.seq),
		onkeydown: event => {
			const to = {
				ArrowRight: current + 1, ArrowUp: current + 1, ArrowLeft: current - 1, ArrowDown: current - 1,
				PageUp: turn(1), PageDown: turn(-1), Home: 0, End: points.length - 1,
			}[event.key];
			if (to === undefined) return;
			event.preventDefault();
			point(to);
			jump(points[current].seq, false);
		},
	}, drawing, tip);
	point(0);
	// Marks where the reader is, unless the reader is using the keys.
	slider.at = seq => {
		if (slider !== document.activeElement) point(lastIndex(points.length, index => points[index].seq <= seq));
	};
	return slider;
}

function jumpPoints(data, axis) {
	const point = ({from, seq}, label, isTurn) => ({x: axis.x(from), seq, isTurn, label: clockTime(from) + " " + label});
	const points = (data.turns ?? []).map(turn => point(turn, "turn " + turn.turn, true));
	for (const part of data.spans ?? []) {
		const took = part.to ? " · " + duration(Date.parse(part.to) - Date.parse(part.from)) : "";
		const name = {wait: "waited for approval: ", thinking: "thinking"}[part.kind] ?? "";
		points.push(point(part, name + String(part.label ?? "").slice(0, 80) + took));
	}
	return points.sort((a, b) => a.seq - b.seq);
}

// The same as a table.
export function timelineTable(data, href) {
	const turns = data.turns ?? [];
	const all = (data.spans ?? []).map(part => ({...part, at: Date.parse(part.from)}));
	const body = turns.slice(0, 200).map(turn => {
		const start = Date.parse(turn.from);
		const end = Date.parse(turn.to ?? data.to);
		const spans = all.filter(({at}) => at >= start && at <= end);
		const waits = spans.filter(part => part.kind === "wait")
			.reduce((sum, part) => sum + Date.parse(part.to ?? data.to) - part.at, 0);
		return el("tr",
			el("th", {scope: "row"}, el("a", {href: href(turn.seq)}, "Turn " + turn.turn)),
			el("td", duration(end - start)),
			el("td", plural(spans.filter(part => part.kind === "tool").length, "tool")),
			el("td", waits ? duration(waits) : "—"));
	});
	const last = data.tokens?.[data.tokens.length - 1];
	return table("plain", plural(turns.length, "turn") + (last ? ", " + compact(last.total) + " tokens" : ""), ["Turn", "Time", "Tools", "Waited"], body);
}
