// DOM building blocks. Whatever an agent, a tool or a file name says is hostile: it becomes text
// nodes, never markup. The only markup is `html` made by the server, through one policy.

const SVG_NS = "http://www.w3.org/2000/svg";

// Control, format, surrogate and invisible filler characters. A joiner inside an emoji is fine.
const HIDDEN =
	/(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/gu;
const EMOJI_BEFORE = /[\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]$/u;

const policyRules = {createHTML: html => html};
const htmlPolicy = window.trustedTypes?.createPolicy("ostler", policyRules) ?? policyRules;

function escapeOf(character) {
	return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

// Pieces: `{text}`, and `{hidden}`, the escape of a hidden character.
function piecesOf(text) {
	const pieces = [];
	let from = 0;
	for (const {0: character, index} of text.matchAll(HIDDEN)) {
		if (character === "\u200d" && EMOJI_BEFORE.test(text.slice(Math.max(0, index - 4), index))) continue;
		pieces.push({text: text.slice(from, index)}, {hidden: escapeOf(character)});
		from = index + character.length;
	}
	return [...pieces, {text: text.slice(from)}];
}

// A fragment with bidi and control characters as escapes.
export function safeText(value) {
	const fragment = document.createDocumentFragment();
	for (const piece of piecesOf(String(value ?? ""))) {
		fragment.append(piece.text ?? el("span.ctl", {title: "Hidden character"}, piece.hidden));
	}
	return fragment;
}

// The same on one line.
export function oneLine(value) {
	return safeText(String(value ?? "").replace(/\r?\n/g, " ⏎ ").replace(/\t/g, " "));
}

// The same for attributes and the document's title.
export function safeString(value) {
	return piecesOf(String(value ?? "")).map(piece => piece.text ?? piece.hidden).join("");
}

// Text of a terminal: without colours, and overwritten lines as they were last.
export function terminalText(value) {
	return String(value ?? "").replace(/\x1b\[[0-9;:]*[mK]/g, "").replace(/\r+(?=\n|$)/g, "").replace(/[^\n]*\r/g, "");
}

function fill(node, rest) {
	const props = rest[0]?.constructor === Object ? rest.shift() : {};
	for (const [name, value] of Object.entries(props)) {
		if (value == null || value === false) continue;
		if (name === "onsubmit") {
			// A form never leaves the page.
			node.addEventListener("submit", event => {
				event.preventDefault();
				value();
			});
		} else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
		else if (["value", "checked", "disabled"].includes(name)) node[name] = value;
		else node.setAttribute(name, value === true ? "" : String(value));
	}
	append(node, rest);
	return node;
}

function append(node, children) {
	for (const child of children) {
		if (child == null || child === false) continue;
		if (Array.isArray(child)) append(node, child);
		else node.append(child);
	}
}

// Makes an element: `el("a.button", {href}, "text", node)`, `el(".meta")`.
export function el(name, ...rest) {
	const [tag, ...classes] = name.split(".");
	const node = document.createElement(tag || "div");
	if (tag === "button") node.type = "button";
	// The heading of a view takes the focus when the view opens.
	if (tag === "h1") node.tabIndex = -1;
	if (classes.length > 0) node.className = classes.join(" ");
	return fill(node, rest);
}

export function svg(tag, ...rest) {
	return fill(document.createElementNS(SVG_NS, tag), rest);
}

// Sets HTML that the server made safe. Nothing else sets markup.
export function setServerHtml(node, html) {
	node.innerHTML = htmlPolicy.createHTML(html);
}

export function replace(node, ...children) {
	node.replaceChildren();
	append(node, children);
	return node;
}

// Draws a part anew. The control with the same key, address or text gets the focus back, and
// otherwise the part itself: never a control that the reader did not choose.
export function holdFocus(node, draw) {
	const nameOf = one => one.dataset.key ?? one.getAttribute("href") ?? one.textContent;
	const active = document.activeElement;
	const focused = node.contains(active) && nameOf(active);
	const now = draw();
	if (focused === false) return;
	const same = active !== node && [...now.querySelectorAll("a, button, summary")].find(one => nameOf(one) === focused);
	if (!same && !now.hasAttribute("tabindex")) now.tabIndex = -1;
	(same || now).focus({preventScroll: true});
}

export function refresh(node, ...children) {
	holdFocus(node, () => replace(node, children));
}

// Puts the filters of a view into its address, unless the reader is about to leave it.
export function remember(path, filters) {
	if ((location.hash.split("?")[0] || "#/") !== path) return;
	const pairs = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
	history.replaceState(null, "", path + (pairs && "?" + pairs));
}

const ICONS = {
	read: "M2.5 3h4.2A1.5 1.5 0 0 1 8 4.3V13a1.3 1.3 0 0 0-1.3-1H2.5zM13.5 3H9.3A1.5 1.5 0 0 0 8 4.3",
	edit: "M10.8 2.7l2.5 2.5L5.6 13H3v-2.5zM9 4.5L11.5 7",
	execute: "M3 4l4 4-4 4M8.5 12.5H13",
	search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.4 3.4",
	network: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM2 8h12M8 2c2 1.7 2.6 3.8 2.6 6S10 12.3 8 14M8 2C6 3.7 5.4 5.8 5.4 8S6 12.3 8 14",
	mcp: "M5.5 2v3.5M10.5 2v3.5M4 5.5h8v2.5a4 4 0 0 1-8 0zM8 12v2.5",
	agent: "M4 2.5v7a2 2 0 0 0 2 2h7M10.5 9l2.5 2.5-2.5 2.5",
	other: "M8 9.2a1.2 1.2 0 1 0 0-2.4 1.2 1.2 0 0 0 0 2.4z",
	copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
	check: "M3 8.5l3.2 3.2L13 4.5",
	cross: "M4 4l8 8M12 4l-8 8",
	deny: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM3.8 3.8l8.4 8.4",
	down: "M8 3v10M4 9l4 4 4-4",
};

export function icon(name) {
	const path = svg("path", {d: ICONS[name] ?? ICONS.other});
	return svg("svg", {class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true"}, path);
}

// Copies `text`, or what it returns or resolves to.
export function copyButton(label, text, {bare = false} = {}) {
	const caption = el("span", {class: bare && "vh"});
	const mark = el("span.mark");
	const show = (name, words) => {
		replace(mark, icon(name));
		caption.textContent = words;
	};
	show("copy", label);
	return el("button", {class: bare ? "ghost bare" : "ghost copy", title: bare && label, onclick: async () => {
		try {
			await navigator.clipboard.writeText(await (typeof text === "function" ? text() : text));
			show("check", "Copied");
		} catch {
			show("cross", "Not copied");
		}
		setTimeout(show, 1600, "copy", label);
	}}, mark, caption);
}

// Runs `work` at most once per `delay`, at the end of it.
export function throttled(work, delay) {
	let timer = 0;
	const run = () => {
		timer ||= setTimeout(() => {
			timer = 0;
			work();
		}, delay);
	};
	run.cancel = () => (timer = clearTimeout(timer));
	return run;
}

// Wraps a request so that an answer which a later one overtook resolves to undefined.
export function inOrder(ask) {
	let asked = 0;
	let landed = 0;
	return async (...args) => {
		const turn = ++asked;
		const answer = await ask(...args);
		if (turn < landed) return undefined;
		landed = turn;
		return answer;
	};
}

// Returns the focus when it closes.
export function openDialog(dialog, focus, otherwise) {
	const before = document.activeElement;
	document.body.append(dialog);
	dialog.addEventListener("close", () => {
		dialog.remove();
		// The event comes late: a reader who is elsewhere by now stays there.
		if (document.activeElement !== document.body) return;
		(before?.isConnected && before !== document.body ? before : otherwise())?.focus();
	});
	dialog.showModal();
	focus.focus();
}

// Roles are explicit, because narrow screens lay tables out as blocks.
export function table(name, caption, heads, rows, foot) {
	const head = el("tr", heads.map(text => el("th", {scope: "col", class: "c-" + text.toLowerCase()}, text)));
	const node = el("table." + name, el("caption", caption), el("thead", head), el("tbody", rows), foot && el("tfoot", foot));
	const roles = {TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TFOOT: "rowgroup", TR: "row", TD: "cell"};
	for (const part of [node, ...node.querySelectorAll("thead, tbody, tfoot, tr, td, th")]) {
		part.setAttribute("role", roles[part.tagName] ?? (part.scope === "col" ? "columnheader" : "rowheader"));
	}
	return node;
}

// Moves the focus with j and k.
export function moveFocus(event, links) {
	if (event.key !== "j" && event.key !== "k") return false;
	const at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
	links[Math.min(links.length - 1, Math.max(0, at))]?.focus();
	return true;
}

// A name and its value, if there is one.
export function fact(name, value) {
	return value && value.length !== 0 && [el("dt", name), el("dd", value)];
}

// A text field that is labelled by its placeholder.
export function input(label, props) {
	return el("input", {type: "text", "aria-label": label, placeholder: label, ...props});
}

export function select(label, pairs, value) {
	return options(el("select", {"aria-label": label}), pairs, value);
}

export function chip(tone, text) {
	return el("span", {class: "chip " + tone}, el("span.dot", {"aria-hidden": "true"}), text);
}

// Content is made when they first open.
export function lazyDetails(name, open, summary, content, toggled) {
	// The event comes late: by then, another element may have been drawn in its place.
	const box = el("details." + name, {open}, el("summary", {onclick: () => toggled?.(!box.open)}, summary));
	const draw = () => {
		if (box.open && box.childElementCount === 1) box.append(content());
	};
	box.addEventListener("toggle", () => {
		if (box.isConnected) toggled?.(box.open);
		draw();
	});
	draw();
	return box;
}

// The last index for which `isBefore` holds, or 0.
export function lastIndex(count, isBefore) {
	let low = 0;
	let high = count - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (isBefore(middle)) low = middle;
		else high = middle - 1;
	}
	return low;
}

export function field(label, control, hint) {
	const id = (control.id ||= "f" + Math.random().toString(36).slice(2, 9));
	const note = hint && el("span.hint", {id: id + "h"}, hint);
	if (note) control.setAttribute("aria-describedby", note.id);
	return el(".field", el("label", {for: id}, label), control, note);
}

export function options(select, pairs, value) {
	replace(select, pairs.map(([key, text]) => el("option", {value: key}, text)));
	select.value = value ?? "";
	return select;
}
