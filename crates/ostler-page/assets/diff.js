// Diffs, unified or side by side, coloured by a small generic tokenizer.
import {el, icon, lazyDetails, oneLine, safeText} from "./dom.js";
import {plural} from "./format.js";

const KEYWORDS = "abstract and as assert async await begin bool break case catch class const continue crate def default defer del do done elif else end enum except export extends extern false False fi final finally fn for from func function go if impl implements import in include interface is lambda let local loop match mod module mut namespace new nil none None not null or override package pass private protected pub public raise ref require return self Self set static struct super switch then this throw trait true True try type typedef typeof undefined union unsafe until use using val var void when where while with yield";
const HASH = "py rb sh bash zsh yml yaml toml ini cfg conf pl r mk makefile dockerfile nix tf just shell python ruby console perl".split(" ");
const DASH = "sql lua hs elm ada vhdl".split(" ");
const PROSE = "md markdown txt rst adoc csv tsv log html htm xml svg".split(" ");
const MAX_LINES = 400;
const LINE_KINDS = {" ": "", "+": "add", "-": "del"};

// Groups: comment, string, keyword, number. Other words match too, whole.
function patternOf(comment, quoted) {
	return new RegExp("(" + comment + ")|(\"(?:\\\\.|[^\"\\\\])*\"?|`(?:\\\\.|[^`\\\\])*`?|" + quoted + ")|((?<![\\w$])(?:"
		+ KEYWORDS.replaceAll(" ", "|") + ")(?![\\w$]))|(\\d[\\w.]*)|[\\p{L}_$][\\p{L}\\p{N}_$]*", "gu");
}

const ANY_QUOTED = "'(?:\\\\.|[^'\\\\])*'?";
const PATTERNS = {
	// A quote may also begin a Rust lifetime.
	slash: patternOf("\\/\\/.*|\\/\\*.*?(?:\\*\\/|$)", "'(?:\\\\.|[^'\\\\])'|'(?![a-z_]+\\b(?!'))(?:\\\\.|[^'\\\\])*'"),
	dash: patternOf("--.*", ANY_QUOTED),
	hash: patternOf("(?<!\\S)#.*", ANY_QUOTED),
};

// The lexical family, by the name of the file or language.
function familyOf(name) {
	const ext = String(name ?? "").toLowerCase().split(/[/.]/).pop();
	if (PROSE.includes(ext)) return "prose";
	if (HASH.includes(ext)) return "hash";
	return DASH.includes(ext) ? "dash" : "slash";
}

// `[class, text]` pairs. `state.block`: inside a block comment.
function tokenize(line, family, state) {
	if (family === "prose" || line.length > 2000) return [["", line]];
	const out = [];
	let from = 0;
	const push = (kind, to) => {
		if (to > from) out.push([kind, line.slice(from, to)]);
		from = to;
	};
	if (state.block) {
		const close = line.indexOf("*/");
		state.block = close < 0;
		push("c", close < 0 ? line.length : close + 2);
	}
	const pattern = PATTERNS[family];
	pattern.lastIndex = from;
	for (const match of line.matchAll(pattern)) {
		const kind = "cskn"[match.slice(1).findIndex(Boolean)];
		if (!kind) continue;
		push("", match.index);
		push(kind, match.index + match[0].length);
		state.block = /^\/\*(?!.*\*\/)/.test(match[0]);
	}
	push("", line.length);
	return out;
}

function codeLine(text, family, state) {
	const fragment = document.createDocumentFragment();
	for (const [kind, piece] of tokenize(text, family, state)) {
		fragment.append(kind ? el("span", {class: "t" + kind}, safeText(piece)) : safeText(piece));
	}
	return fragment;
}

// Colours the code blocks of server HTML. Blocks that hold elements are left alone.
export function colourBlocks(root) {
	for (const code of root.querySelectorAll("pre > code")) {
		if (code.childElementCount > 0 || code.textContent.length > 50000) continue;
		const family = familyOf(/language-(\S+)/.exec(code.className)?.[1]);
		const state = {block: false};
		const lines = code.textContent.split("\n");
		code.replaceChildren();
		lines.forEach((line, index) => code.append(index > 0 ? "\n" : "", codeLine(line, family, state)));
	}
}

export function countsOf(added, removed) {
	return el("span.counts", el("span.plus", "+" + added), " ", el("span.minus", "−" + removed));
}

// How the reader wants diffs: `unified` or `split`. A document may have no storage.
let layout;
try {
	layout = localStorage.getItem("ostler-diff");
} catch {}

export function diffToggle(onchange) {
	const button = (value, text) => el("button", {"aria-pressed": String((layout ?? "unified") === value), onclick: () => {
		layout = value;
		try {
			localStorage.setItem("ostler-diff", value);
		} catch {}
		onchange();
	}}, text);
	return el(".segmented", {role: "group", "aria-label": "Diff layout"},
		button("unified", "Unified"), button("split", "Side by side"));
}

function numbered(hunk) {
	// 0: the position is unknown.
	let [before, after] = [hunk.old_start || NaN, hunk.new_start || NaN];
	return hunk.lines.map(({op, text}) => ({
		op, text, before: op === "+" ? "" : before++ || "", after: op === "-" ? "" : after++ || "",
	}));
}

function unifiedRows(lines, family) {
	const gone = {block: false};
	const now = {block: false};
	return lines.map(({op, text, before, after}) => el("tr", {class: LINE_KINDS[op]}, el("td.no", before), el("td.no", after),
		el("td.op", op === "-" ? "−" : op), el("td.code", codeLine(text, family, op === "-" ? gone : now))));
}

function splitRows(lines, family) {
	const left = {block: false};
	const right = {block: false};
	const side = (line, state, number) => {
		if (!line) return [el("td.no.none"), el("td.code.none")];
		const kind = LINE_KINDS[line.op];
		return [el("td", {class: "no " + kind}, number),
			el("td", {class: "code " + kind}, codeLine(line.text, family, state))];
	};
	const rows = [];
	for (let i = 0; i < lines.length;) {
		if (lines[i].op === " ") {
			const line = lines[i++];
			rows.push(el("tr", side(line, left, line.before), side(line, right, line.after)));
			continue;
		}
		const gone = [];
		const come = [];
		while (lines[i]?.op === "-") gone.push(lines[i++]);
		while (lines[i]?.op === "+") come.push(lines[i++]);
		for (let k = 0; k < Math.max(gone.length, come.length); k++) {
			rows.push(el("tr", side(gone[k], left, gone[k]?.before), side(come[k], right, come[k]?.after)));
		}
	}
	return rows;
}

// The lines of one file's diff as a table.
function diffTable(file, all = false) {
	const split = layout === "split";
	const family = familyOf(file.path);
	const body = el("tbody");
	const note = (...text) => body.append(el("tr.hunk", el("td", {colspan: 4}, text)));
	if (file.moved_from) note("Moved from ", oneLine(file.moved_from));
	if (file.deleted) note("Deleted");
	else if (file.before === "missing") note("A new file");
	else if (file.before && !file.hunks.length && !file.binary) note("Nothing changes in it.");
	else if (file.partial) note(file.hunks?.length ? "The whole file is written. What it replaces is not known." : "What changes in it is not known.");
	let shown = 0;
	let left = 0;
	(file.hunks ?? []).forEach((hunk, index) => {
		if (index > 0 || hunk.old_start > 1) note((index > 0 ? "⋯ " : "") + (hunk.new_start ? "line " + hunk.new_start : ""));
		let lines = numbered(hunk);
		const room = all ? lines.length : Math.max(0, MAX_LINES - shown);
		left += Math.max(0, lines.length - room);
		lines = lines.slice(0, room);
		shown += lines.length;
		body.append(...(split ? splitRows(lines, family) : unifiedRows(lines, family)));
	});
	if (file.binary) note("Binary file");
	const heads = split ? ["Before", "After"] : ["Old", "New", "Sign", "Line"];
	const columns = split ? ["no", "half", "no", "half"] : ["no", "no", "sign", "rest"];
	const placed = file.hunks?.some(hunk => hunk.old_start || hunk.new_start);
	const lines = el("table", {class: "diff " + (split ? "split" : "unified") + (placed ? "" : " unplaced")}, el("caption.vh", "Changes in ", oneLine(file.path)),
		el("colgroup", columns.map(name => el("col", {class: name}))),
		el("thead.vh", el("tr", heads.map(text => el("th", {scope: "col", colspan: split && 2}, text)))), body);
	if (left === 0) return lines;
	const box = el("div", lines, el("button.more", {onclick: () => box.replaceWith(diffTable(file, true))},
		"Show " + plural(left, "more line")));
	return box;
}

// `flat`: a single file without its name.
export function diffFiles(files, {flat = false} = {}) {
	if (flat && files.length === 1) return el(".files", diffTable(files[0]));
	return el(".files", files.map((file, index) => fileDiff(file, index < 30)));
}

export function fileDiff(file, open, toggled) {
	return lazyDetails("file", open, [icon("edit"), el("span.path", oneLine(file.path)), countsOf(file.added, file.removed)],
		() => diffTable(file), toggled);
}
