// Numbers, times, costs and command lines for people.
import {el, oneLine, safeString} from "./dom.js";

// The first of each kind takes long to make.
const lazily = make => {
	let made;
	return value => (made ??= make()).format(value);
};
const wholeNumber = lazily(() => new Intl.NumberFormat("en"));
const formatOf = parts => lazily(() => new Intl.DateTimeFormat(undefined, parts));
const CLOCK = {hour: "2-digit", minute: "2-digit", hour12: false};
const DATE = {month: "short", day: "numeric"};
const dayTime = formatOf(CLOCK);
const fullTime = formatOf({...CLOCK, ...DATE, weekday: "short", year: "numeric", second: "2-digit", timeZoneName: "short"});
const shortDate = formatOf(DATE);
const longDate = formatOf({...DATE, year: "numeric"});

// Makes them ahead of their first use.
export function makeFormats() {
	for (const format of [wholeNumber, dayTime, fullTime, shortDate]) format(0);
}

export function isTime(at) {
	const time = Date.parse(at);
	return Number.isFinite(time) && time > 0;
}

export function absolute(at) {
	return isTime(at) ? fullTime(Date.parse(at)) : "time unknown";
}

export function clockTime(at) {
	return isTime(at) ? dayTime(Date.parse(at)) : "";
}

function relative(at, now = Date.now()) {
	if (!isTime(at)) return "";
	const seconds = Math.round((now - Date.parse(at)) / 1000);
	if (seconds < -5) return "in " + span(-seconds);
	if (seconds < 10) return "now";
	if (seconds < 7 * 86400) return span(seconds) + " ago";
	const date = new Date(at);
	return (date.getFullYear() === new Date(now).getFullYear() ? shortDate : longDate)(date);
}

function span(seconds) {
	if (seconds < 60) return seconds + " s";
	if (seconds < 3600) return Math.round(seconds / 60) + " min";
	if (seconds < 86400) return Math.round(seconds / 3600) + " h";
	return Math.round(seconds / 86400) + " d";
}

// A relative time; `refreshTimes` updates it.
export function timeElement(at) {
	if (!isTime(at)) return el("span", "—");
	return el("time", {datetime: at, title: absolute(at), "data-rel": true}, relative(at));
}

export function refreshTimes(root) {
	const now = Date.now();
	for (const node of root.querySelectorAll("time[data-rel]")) {
		const text = relative(node.dateTime, now);
		if (node.textContent !== text) node.textContent = text;
	}
}

export function duration(ms) {
	if (ms == null || !Number.isFinite(ms)) return "";
	if (ms < 1000) return Math.round(ms) + " ms";
	const seconds = Math.round(ms / 1000);
	if (seconds < 60) return (ms < 10000 ? (ms / 1000).toFixed(1) : seconds) + " s";
	const minutes = Math.floor(seconds / 60);
	if (minutes < 60) return minutes + ":" + String(seconds % 60).padStart(2, "0") + " min";
	return Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
}

export function whole(value) {
	return value == null ? "—" : wholeNumber(value);
}

export function compact(value) {
	if (value == null) return "—";
	if (value < 1000) return String(value);
	if (value < 1e6) return (value / 1e3).toFixed(value < 1e4 ? 1 : 0) + "k";
	if (value < 1e9) return (value / 1e6).toFixed(value < 1e7 ? 2 : 1) + "M";
	return (value / 1e9).toFixed(2) + "G";
}

export function dollars(value) {
	if (value == null) return "—";
	const digits = value !== 0 && Math.abs(value) < 0.1 ? 4 : 2;
	return "$" + value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

const SOURCES = {
	reported: "reported by the agent",
	estimated: "estimated from a price list",
	partial: "known in part: a lower bound",
	unknown: "unknown, which is not zero",
};

export function costSource(usage) {
	return SOURCES[usage?.cost_source] ?? SOURCES.unknown;
}

export function cost(usage) {
	if (usage?.cost_usd == null) return "—";
	const sign = {estimated: "≈ ", partial: "≥ "}[usage.cost_source] ?? "";
	return sign + dollars(usage.cost_usd);
}

// Disjoint counters of tokens.
export const COUNTERS = [["input", "Input"], ["cache_read", "From cache"], ["cache_write", "To cache"], ["output", "Output"]];

// Total tokens: given, or the sum of the counters.
export function tokensOf(usage) {
	if (usage?.tokens != null) return usage.tokens;
	const known = COUNTERS.map(([key]) => usage?.[key]).filter(value => value != null);
	return known.length ? known.reduce((sum, value) => sum + value) : null;
}

export function tokensSpan(usage, unit = "") {
	return el("span", {title: whole(tokensOf(usage))}, compact(tokensOf(usage)) + unit);
}

export function costSpan(usage, text = cost(usage)) {
	return el("span", {title: "Cost " + costSource(usage)}, text);
}

// The time of the day, after the date unless that is today.
export function clockElement(at) {
	const date = shortDate(Date.parse(at));
	return el("time", {datetime: at, title: absolute(at)}, date !== shortDate() && date + " ", clockTime(at));
}

export function plural(count, one, many) {
	return wholeNumber(count) + " " + (count === 1 ? one : many ?? one + "s");
}

export function shellQuote(text) {
	const value = String(text);
	return /^[A-Za-z0-9_@%+=:,./-]+$/.test(value) ? value : "'" + value.replaceAll("'", "'\\''") + "'";
}

// The last two parts of a path.
export function shortPath(path) {
	const parts = String(path ?? "").split("/").filter(Boolean);
	return parts.length > 2 ? "…/" + parts.slice(-2).join("/") : String(path ?? "");
}

export function pathSpan(path) {
	return el("span", {title: safeString(path)}, oneLine(shortPath(path)));
}

export function titleOf(session) {
	return session.title || session.prompt?.split("\n")[0] || session.name || session.id;
}

const OUTCOMES = {success: ["Done", "done"], failed: ["Failed", "bad"], timeout: ["Timed out", "bad"], stopped: ["Stopped", "quiet"]};

export function failed(outcome) {
	return outcome?.status === "failed" || outcome?.status === "timeout";
}

// `{name, tone}` of a session's state.
export function stateOf({state, outcome, pending_approvals: waiting, last_turn: last}) {
	if (waiting > 0) return {name: "Needs approval", tone: "wait"};
	if (state === "ended") {
		const [name, tone] = OUTCOMES[outcome?.status] ?? ["Cut off", "bad"];
		return {name, tone};
	}
	if (state === "idle" && failed(last)) return {name: OUTCOMES[last.status][0].replace(/^./, letter => "Turn " + letter.toLowerCase()), tone: "bad"};
	const name = state === "created" ? "Queued" : state[0].toUpperCase() + state.slice(1);
	return {name, tone: state === "working" || state === "starting" ? "busy" : "quiet"};
}

export function labelTags(session) {
	return Object.entries(session.labels ?? {}).map(([name, value]) => el("span.tag", oneLine(name + "=" + value)));
}

export function causeName(cause) {
	return String(cause ?? "").replaceAll("_", " ");
}
