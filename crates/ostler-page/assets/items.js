// The rows of a conversation: one element per transcript item.
import {copyButton, el, icon, lazyDetails, oneLine, safeString, safeText, setServerHtml, terminalText} from "./dom.js";
import {absolute, causeName, clockElement, compact, cost, costSpan, duration, failed, isTime, shellQuote, tokensOf} from "./format.js";
import {colourBlocks, countsOf, diffFiles, diffToggle} from "./diff.js";

const KIND_NAMES = {
	read: "Read", edit: "Edit", execute: "Run", search: "Search", network: "Network",
	mcp: "MCP", agent: "Sub-agent", other: "Tool",
};

// Arguments with a file's whole text, in the order in which the daemon looks for them.
const WHOLE_TEXTS = ["content", "contents", "file_text", "new_source"];

export function itemKey(item) {
	return item.type + ":" + item.seq;
}

// A guess, until it is measured.
export function itemHeight(item) {
	const lines = text => Math.ceil((text?.length ?? 0) / 88) + (text?.match(/\n/g)?.length ?? 0);
	if (item.type === "prompt") return 40 + lines(item.text) * 22;
	if (item.type === "reply") return 20 + lines(item.text) * 24;
	return {turn_ended: 57, ended: 64, thinking: 33, tool: 33, permission: 33}[item.type] ?? 30;
}

// `folds`: which rows are open. `depthOf`: how deep a sub-agent's row is nested.
export function renderItem(item, {folds, depthOf, redraw}) {
	const row = el("article", {class: "row " + item.type, tabindex: -1, "data-seq": item.seq});
	const depth = depthOf(item);
	if (depth > 0) {
		row.classList.add("nested");
		row.style.setProperty("--depth", String(depth));
	}
	const stamped = ["prompt", "reply", "turn_ended", "ended"].includes(item.type) && isTime(item.at);
	const [label, ...body] = (RENDER[item.type] ?? RENDER.other)(item, row, {key: itemKey(item), folds, redraw});
	row.setAttribute("aria-label", label);
	row.append(el(".stamp", stamped && clockElement(item.at)), el(".body", body));
	return row;
}

// Text that still grows stays in one text node.
function liveText(row, text) {
	row.live = document.createTextNode(safeString(text));
	return row.live;
}

export function streamMore(row, text) {
	row.live?.appendData(safeString(text));
}

export function fold({key, folds}, summary, content) {
	return lazyDetails("fold", folds.has(key), summary, content, open => (open ? folds.add(key) : folds.delete(key)));
}

function statusOf(item) {
	if (item.denied) return el("span.result.bad", icon("deny"), "denied");
	if (item.ok === false) return el("span.result.bad", icon("cross"), "failed");
	if (item.ok === true) return el("span.result.ok", {title: "succeeded"}, icon("check"), el("span.vh", "ok"));
	if (item.permission?.decision === "asked") return el("span.result.wait", "waits for approval");
	return el("span.result.busy", "running");
}

export function block(title, text, level = "h4") {
	return el("section.block",
		el(".blockhead", el(level, title), copyButton("Copy " + title.toLowerCase(), text, {bare: true})),
		el("pre", {tabindex: 0}, safeText(text)));
}

export function jsonText(value) {
	return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

// The exact command of a tool call, or null.
export function commandOf(input) {
	const command = input?.command ?? input?.cmd;
	if (Array.isArray(command)) return command.map(shellQuote).join(" ");
	return typeof command === "string" ? command : null;
}

// The arguments besides the command or, with a diff, besides what that shows; or null.
export function otherArguments(input, diff) {
	const {command, cmd, ...rest} = input ?? {};
	const lines = new Set(diff?.flatMap(file => file.hunks.flatMap(hunk => hunk.lines.map(line => line.text))));
	const isShown = line => lines.has(line) || lines.has(line.slice(1)) || /^$|^(\*\*\* |@@)/.test(line)
		|| diff.some(({path, moved_from: from}) => [path, from].some(name => name && ("/" + line).endsWith("/" + name)));
	// A diff with the file as it was shows all of the new text, or that it stays.
	const whole = diff?.length === 1 && diff[0].before && !diff[0].binary && WHOLE_TEXTS.find(key => typeof input?.[key] === "string");
	const unshown = value => {
		if (typeof value === "string") return value.split(/\r?\n/).every(isShown) ? undefined : value;
		if (value === null || typeof value !== "object") return value;
		const left = Object.entries(value).map(([key, part]) => [key, unshown(part)]).filter(([, part]) => part !== undefined);
		return left.length > 0 ? Object.fromEntries(left) : undefined;
	};
	const left = diff ? unshown(whole ? {...input, [whole]: undefined} : input) : rest;
	return left && Object.keys(left).length > 0 ? jsonText(left) : null;
}

function toolDetails(item, redraw) {
	const parts = [];
	const command = commandOf(item.input);
	if (item.permission) parts.push(permissionLine(item.permission));
	if (item.diff?.length) {
		const rest = otherArguments(item.input, item.diff);
		parts.push(el(".diffbar", diffToggle(redraw)), diffFiles(item.diff, {flat: true}), rest && block("Arguments", rest));
	} else if (command !== null) {
		const rest = otherArguments(item.input);
		parts.push(block("Command", command), rest && block("Arguments", rest));
	} else if (item.input != null) {
		parts.push(block("Input", jsonText(item.input)));
	}
	if (item.output) {
		parts.push(block(item.ok === false ? "Error" : "Output", terminalText(item.output)),
			item.output_truncated && el("p.hint", "The output is cut. The events have all of it."));
	}
	return el(".details", el("p.hint", "Tool ", el("code", oneLine(item.name)),
		item.started_at && [" · ", absolute(item.started_at)]), parts);
}

function permissionLine({decision, by, message}) {
	const who = {rule: "by a rule", person: "by a person", agent: "by the agent", default: "by default"}[by] ?? "";
	return el("p", {class: "decision " + decision},
		{asked: "Waits for approval", allowed: "Allowed " + who, denied: "Denied " + who}[decision] ?? decision,
		message && [": ", safeText(message)]);
}

function usageSpan(usage) {
	const tokens = tokensOf(usage);
	const parts = [tokens !== null && compact(tokens) + " tokens", usage?.cost_usd != null && cost(usage)].filter(Boolean);
	return parts.length > 0 && costSpan(usage, parts.join(" · "));
}

function ruleLine(kind, text, outcome, ...rest) {
	const {status, cause} = outcome;
	return el("p", {class: kind + (failed(outcome) ? " bad" : "")},
		el("span", text, status === "success" ? "done" : causeName(cause ?? status)), rest);
}

function failure(outcome) {
	if (outcome.status === "success" || !outcome.message) return null;
	return el(".failure", el("p", safeText(outcome.message)),
		outcome.hint && el("p", safeText(outcome.hint)),
		outcome.detail?.stderr && el("pre", {tabindex: 0}, safeText(terminalText(outcome.detail.stderr))));
}

// Each returns the row's label and its content.
const RENDER = {
	prompt(item) {
		const agent = item.origin === "agent";
		return [agent ? "Continued by the agent" : "Your message",
			el("h3.who", agent ? "Continued by itself" : "You", el("span.turn", "turn " + item.turn)),
			// A person's own words stay as they were typed.
			item.text && el(".said", safeText(item.text))];
	},

	reply(item, row) {
		if (!item.html || item.open) return ["Reply", el(".prose.raw", liveText(row, item.text))];
		const prose = el(".prose");
		setServerHtml(prose, item.html);
		colourBlocks(prose);
		return ["Reply", prose];
	},

	thinking(item, row, context) {
		const first = (item.text ?? "").trim().split("\n")[0].slice(0, 140);
		return ["Thinking", fold(context, [el("span.kind", item.open ? "Thinking" : "Thought"), el("span.gist", oneLine(first))],
			() => el(".thoughts", liveText(row, item.text)))];
	},

	tool(item, row, context) {
		const kind = item.kind ?? "other";
		const sum = key => item.diff.reduce((total, file) => total + file[key], 0);
		return [KIND_NAMES[kind] + " " + safeString(item.name), fold(context, [
			el("span.kind", {title: safeString(item.name)}, icon(kind), kind === "mcp" || kind === "other"
				? oneLine(item.name) : KIND_NAMES[kind]),
			el("span.what", oneLine(item.summary)),
			item.diff?.length > 0 && countsOf(sum("added"), sum("removed")),
			el("span.took", duration(item.duration_ms)),
			statusOf(item),
		], () => toolDetails(item, context.redraw))];
	},

	permission(item, row, context) {
		const tone = {denied: "bad", asked: "wait"}[item.decision] ?? "ok";
		const command = commandOf(item.input);
		return ["Permission request", fold(context, [
			el("span.kind", icon(item.kind), oneLine(item.tool)),
			el("span.what", oneLine(command ?? JSON.stringify(item.input ?? {}))),
			el("span", {class: "result " + tone}, item.decision),
		], () => el(".details", permissionLine(item),
			command === null ? block("Input", jsonText(item.input)) : block("Command", command)))];
	},

	notice(item, row) {
		row.classList.add(item.level);
		return ["Notice", el("p", el("span.code", oneLine(item.code)), " ", safeText(item.message))];
	},

	turn_ended(item) {
		const outcome = item.outcome ?? {};
		return ["End of turn " + item.turn, ruleLine("rule", "Turn " + item.turn + " ", outcome,
			item.duration_ms > 0 && el("span", duration(item.duration_ms)), usageSpan(item.usage)), failure(outcome)];
	},

	ended(item) {
		return ["End of the session", ruleLine("rule final", "Session ended: ", item.outcome ?? {}, usageSpan(item.usage))];
	},

	unreadable(item, row, context) {
		return ["Unreadable output", fold(context, [el("span.kind", "Unreadable"), el("span.gist", oneLine(item.why))],
			() => el(".details", block("Raw", jsonText(item.raw))))];
	},

	state(item) {
		return ["State", el("p.rule", el("span", item.to === "paused" ? "Paused" : "Resumed"))];
	},

	other(item) {
		return [String(item.type), el("p.hint", oneLine(item.type))];
	},
};

// Applies one event to the end of the list: `{put: item}`, `{more: item, text}` or null. `tail.text`
// is the message that still grows. Everything but text comes with the next page.
export function applyEvent(event, tail) {
	const base = {seq: event.seq, last_seq: event.seq, turn: event.turn, at: event.at};
	if (event.type !== "text" && event.type !== "usage") tail.text = null;
	if (event.type === "turn_started") return {put: {...base, type: "prompt", origin: event.origin, text: event.prompt ?? ""}};
	if (event.type !== "text") return null;
	const type = event.kind === "thinking" ? "thinking" : "reply";
	const open = tail.text;
	const same = key => (open[key] ?? event[key]) === event[key];
	if (open && event.delta && open.type === type && same("message") && same("parent")) {
		open.text += event.text;
		open.last_seq = event.seq;
		return {more: open, text: event.text};
	}
	const item = {...base, type, text: event.text, open: event.delta, message: event.message, parent: event.parent};
	tail.text = event.delta ? item : null;
	return {put: item};
}
