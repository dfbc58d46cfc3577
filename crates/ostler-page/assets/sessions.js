// The list of sessions, and the form for a new one.
import {copyButton, el, field, input, oneLine, options, remember, replace, safeString, safeText, select, table, throttled} from "./dom.js";
import {costSpan, labelTags, pathSpan, plural, shellQuote, timeElement, titleOf, tokensSpan, whole} from "./format.js";
import {get, linkTo, post, problemBox, sessionPath} from "./api.js";
import {unlockBox} from "./approvals.js";
import {stateChip} from "./session.js";

const STATES = [
	["", "All sessions"], ["live", "Not ended"], ["waiting", "Needs approval"], ["working", "Working"], ["idle", "Idle"],
	["paused", "Paused"], ["created", "Queued"], ["ended", "Ended"],
];
const COLUMNS = ["State", "Session", "Agent", "Turns", "Tokens", "Cost", "Age"];

export class SessionsView {
	constructor(app, query) {
		this.app = app;
		this.rows = new Map();
		this.order = [];
		this.next = null;
		this.due = new Set();
		this.refreshDue = throttled(() => this.loadDue(), 600);
		this.reload = throttled(() => this.load(), 200);
		this.text = input("Filter sessions", {type: "search", id: "filter", placeholder: "Filter by title, name, directory, model", value: query.get("q")});
		this.state = select("State", STATES, query.get("state"));
		this.offerAgents([query.get("agent")].filter(Boolean), query.get("agent"));
		this.dir = input("Directory", {list: "dirs", value: query.get("dir")});
		this.label = input("Label", {placeholder: "Label NAME=VALUE", value: query.get("label")});
		this.dirs = el("datalist", {id: "dirs"});
		this.count = el("span.hint");
		this.table = table("grid.sessions", el("span.vh", "Sessions: those that wait for approval, then the newest"), COLUMNS, []);
		this.body = this.table.querySelector("tbody");
		this.more = el("button.more", {hidden: true, onclick: () => this.loadMore()}, "Show more");
		this.alert = el("div");
		this.pill = el("button.pill", {hidden: true, onclick: () => this.settle()});
		// Rows that wait for the reader move once no row is pointed at or has the focus.
		const later = throttled(() => this.dead || this.pill.hidden || this.draw(), 50);
		for (const event of ["pointerleave", "focusout"]) this.body.addEventListener(event, later);
		const bar = el("form.filters", {role: "search", oninput: this.reload, onsubmit: () => this.load()},
			this.text, this.state, this.agent, this.dir, this.label, this.dirs);
		this.node = el(".page.wide",
			el(".pagehead", el("h1", "Sessions"), this.count,
				el("a.button.primary", {href: "#/new"}, "New session")),
			bar, this.table, this.more, el(".foot", this.pill, this.alert));
		app.setTitle("Sessions");
	}

	start() {
		this.off = this.app.live.on(events => this.hear(events));
		// What happened before the stream began is in neither, even if the first load is under way.
		let isFirst = true;
		this.offState = this.app.live.onState(state => {
			if (state === "live" && !isFirst) this.load(true);
		});
		isFirst = false;
		this.load();
		get("/v1/agents").then(({agents}) => this.offerAgents(agents.map(agent => agent.name), this.agent.value)).catch(() => {});
	}

	offerAgents(names, value) {
		this.agent ??= el("select", {"aria-label": "Agent"});
		options(this.agent, [["", "All agents"], ...names.map(name => [name, safeString(name)])], value);
	}

	destroy() {
		this.dead = true;
		this.off();
		this.offState();
		this.refreshDue.cancel();
		this.reload.cancel();
	}

	query() {
		const state = this.state.value;
		const query = {
			q: this.text.value.trim(), agent: this.agent.value, limit: 100,
			dir_contains: this.dir.value.trim(), label_contains: this.label.value.trim(),
		};
		if (state === "waiting") query.waiting = true;
		else if (state && state !== "live") query.state = state;
		if (!state || state === "ended") query.all = true;
		return query;
	}

	// `more`: the rows that were loaded before stay.
	async load(more) {
		const turn = (this.turn = (this.turn ?? 0) + 1);
		const query = this.query();
		const value = name => this[name].value.trim();
		remember("#/", {q: value("text"), state: value("state"), agent: value("agent"), dir: value("dir"), label: value("label")});
		try {
			const [waiting, page] = await Promise.all([
				get("/v1/sessions", {...query, all: undefined, waiting: true}), get("/v1/sessions", query)]);
			if (this.dead || turn !== this.turn) return;
			replace(this.alert);
			if (more && this.order.length > page.sessions.length) this.take({next: this.next, sessions: this.order}, [...waiting.sessions, ...page.sessions]);
			else this.take(page, waiting.sessions, !more);
			if (!more) this.app.announce(this.count.textContent);
		} catch (error) {
			if (!this.dead && turn === this.turn) replace(this.alert, problemBox(error, () => this.load()));
		}
	}

	async loadMore() {
		const filters = () => JSON.stringify(this.query());
		const before = filters();
		try {
			const page = await get("/v1/sessions", {...this.query(), cursor: this.next});
			if (!this.dead && filters() === before) this.take(page, this.order, true);
		} catch (error) {
			replace(this.alert, problemBox(error));
		}
	}

	// Shows a page of sessions after those before it, which are as new or newer.
	take(page, before, asked) {
		const all = new Map([...page.sessions, ...before].map(session => [session.id, session]));
		this.order = [...all.values()].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
		this.next = page.next ?? null;
		this.draw(asked);
	}

	hear(events) {
		for (const event of events) {
			if (!["text", "tool_call", "tool_result", "usage", "notice"].includes(event.type)) this.due.add(event.session);
		}
		if (this.due.size > 0) this.refreshDue();
	}

	async loadDue() {
		const due = [...this.due];
		this.due.clear();
		if (due.length > 12 || due.some(id => !this.order.some(session => session.id === id))) {
			this.load(true);
			return;
		}
		// A session that was deleted stays until the next load.
		const fresh = await Promise.all(due.map(id => get(sessionPath(id)).catch(() => null)));
		this.order = this.order.map(session => fresh.find(one => one?.id === session.id && one.last_seq >= session.last_seq) ?? session);
		if (!this.dead) this.draw();
	}

	// The button goes, so the first row takes its focus.
	settle() {
		this.draw(true);
		scrollTo({top: 0});
		this.body.querySelector("a")?.focus({preventScroll: true});
	}

	// `asked`: the reader wants other rows. Otherwise rows that are being read stay in their places.
	draw(asked) {
		for (const session of this.order) this.app.known.set(session.id, session);
		const waits = session => session.pending_approvals > 0;
		const sorted = nested(this.order.filter(session => this.matches(session)).sort((a, b) => waits(b) - waits(a)));
		const isRead = !asked && this.rows.size > 0 && (scrollY > 0 || this.body.matches(":hover, :focus-within"));
		const now = new Map([...this.order, ...sorted].map(session => [session.id, session]));
		const shown = isRead ? [...this.rows.values()].map(row => now.get(row.id) ?? row.session) : sorted;
		this.pill.hidden = shown.map(session => session.id).join() === sorted.map(session => session.id).join();
		const fresh = sorted.filter(session => !this.rows.has(session.id)).length;
		replace(this.pill, fresh > 0 ? plural(fresh, "new session") : "New order");
		const nodes = shown.map(session => {
			const key = JSON.stringify({...session, last_seq: 0});
			const old = this.rows.get(session.id);
			if (old?.key === key) return old;
			return {id: session.id, session, key, node: this.row(session), focus: old?.node.contains(document.activeElement)};
		});
		this.rows = new Map(nodes.map(row => [row.id, row]));
		const focused = this.body.contains(document.activeElement) && document.activeElement;
		// Rows that did not change stay, or move without losing the focus.
		let place = this.body.firstChild;
		for (const row of nodes) {
			if (row.node === place) place = place.nextSibling;
			else this.body.insertBefore(row.node, place);
		}
		while (this.body.childElementCount > nodes.length) this.body.lastChild.remove();
		for (const row of nodes) {
			if (row.focus) row.node.querySelector("a").focus();
			row.focus = false;
		}
		if (focused && focused.isConnected && document.activeElement === document.body) focused.focus();
		if (nodes.length === 0) {
			const filtered = [this.text, this.state, this.agent, this.dir, this.label].some(control => control.value);
			this.body.append(el("tr", {role: "row"}, el("td", {role: "cell", colspan: COLUMNS.length, class: "empty"},
				filtered ? "No session matches." : ["No sessions yet. Start one with ", el("code", 'ostler run --detach "…"'), " or with the button above."])));
		}
		const also = (test, words) => (sorted.some(test) ? " · " + sorted.filter(test).length + words : "");
		this.count.textContent = (this.next ? sorted.length + "+ sessions" : plural(sorted.length, "session"))
			+ also(session => session.state === "working" && !waits(session), " working") + also(waits, " waiting for approval");
		this.more.hidden = !this.next;
		offer(this.dirs, [...new Set(sorted.map(session => session.dir))].slice(0, 50));
	}

	// A row may no longer match.
	matches(session) {
		const state = this.state.value;
		const has = (control, texts) => texts.some(text => text.toLowerCase().includes(control.value.trim().toLowerCase()));
		const labels = Object.entries(session.labels ?? {}).map(pair => pair.join("="));
		return has(this.dir, [session.dir]) && has(this.label, ["", ...labels].slice(this.label.value.trim() ? 1 : 0))
			&& (!state || session.state === state || (state === "waiting" && session.pending_approvals > 0) || (state === "live" && session.state !== "ended"));
	}

	row(session) {
		const cell = (name, ...content) => el("td", {class: name, role: "cell"}, content);
		return el("tr", {role: "row", class: session.depth && "child"},
			cell("state", stateChip(session)),
			cell("main", el("a", {href: linkTo(session.id)}, oneLine(titleOf(session))),
				el("span.sub", pathSpan(session.dir), labelTags(session).slice(0, 4))),
			cell("agent", el("span", oneLine(session.agent)), el("span.sub", oneLine(session.model ?? ""))),
			cell("turns num", whole(session.turns)),
			cell("tokens num", tokensSpan(session.usage)),
			cell("cost num", costSpan(session.usage)),
			cell("age num", timeElement(session.created_at)));
	}
}

// Sessions that an agent started, after the one that it works for.
function nested(sessions) {
	const ids = new Set(sessions.map(session => session.id));
	const groups = Map.groupBy(sessions, session => (ids.has(session.parent) ? session.parent : null));
	const below = (parent, depth) => (groups.get(parent) ?? [])
		.flatMap(session => [depth ? {...session, depth} : session, ...below(session.id, depth + 1)]);
	return below(null, 0);
}

function offer(datalist, values) {
	replace(datalist, [...values].map(value => el("option", {value})));
}

const LIMITS = [
	["timeout", "--timeout", "Time per turn", "30m"], ["max_time", "--max-time", "Time in all", "2h"],
	["max_budget_usd", "--max-budget-usd", "Cost, US dollars", "5"], ["max_tokens", "--max-tokens", "Tokens", "500000"],
	["max_turns", "--max-turns", "Agent steps", "100"],
];

// `ostler run` ends after one turn, so a session that waits for messages is a request.
function commandLine(body) {
	if (!body.once || !body.prompt) {
		return 'curl --unix-socket "$(ostler serve --print-socket)" http://localhost/v1/sessions \\\n'
			+ "  -H 'Content-Type: application/json' \\\n  -d " + shellQuote(JSON.stringify(body));
	}
	const words = ["ostler run --detach"];
	for (const key of ["agent", "model", "dir", "permissions", "name"]) {
		if (body[key]) words.push("--" + key + " " + shellQuote(body[key]));
	}
	for (const [name, value] of Object.entries(body.labels ?? {})) words.push("--label " + shellQuote(name + "=" + value));
	for (const [key, flag] of LIMITS) if (body.limits?.[key] !== undefined) words.push(flag + " " + shellQuote(body.limits[key]));
	words.push((body.prompt.startsWith("-") ? "--prompt=" : "") + shellQuote(body.prompt));
	return words.join(" ");
}

export class NewSessionView {
	constructor(app) {
		this.app = app;
		app.setTitle("New session");
		this.prompt = el("textarea", {rows: 5, name: "prompt"});
		const text = (name, props) => el("input", {type: "text", name, autocomplete: "off", ...props});
		this.agent = el("select", {name: "agent"}, el("option", {value: ""}, "Default"));
		this.model = text("model", {list: "models"});
		this.models = el("datalist", {id: "models"});
		this.dir = text("dir", {required: true, list: "knowndirs", spellcheck: "false"});
		this.dirs = el("datalist", {id: "knowndirs"});
		this.permissions = options(el("select", {name: "permissions"}), [
			["", "As your policy says"], ["read-only", "Read only"], ["workspace", "Change files in the workspace; ask otherwise"],
			["ask", "Ask for everything but reading"], ["all", "Allow everything without asking"],
		], "");
		this.name = text("name");
		this.labels = text("labels");
		this.once = el("input", {type: "checkbox", id: "once", checked: true});
		this.limits = LIMITS.map(([key, , label, example]) => [key, text(key, {inputmode: isNaN(example) ? "text" : "decimal", placeholder: example}), label]);
		this.reason = el("p.hint");
		this.line = el("pre.command", {tabindex: 0, "aria-label": "Equivalent command"});
		this.alert = el("div");
		const start = el("button.primary", {type: "submit"}, "Start session");
		let key = crypto.randomUUID();
		const submit = async () => {
			start.disabled = true;
			try {
				const session = await post("/v1/sessions", this.body(), {headers: {"Idempotency-Key": key}});
				if (!this.dead) app.visit(linkTo(session.id));
			} catch (error) {
				key = crypto.randomUUID();
				replace(this.alert, problemBox(error));
				start.disabled = false;
			}
		};
		this.lock = unlockBox(app, () => this.permissions.focus());
		this.lock.hidden = true;
		const form = el("form.new", {oninput: () => this.draw(), onsubmit: submit},
			field("Task", this.prompt, "Without one, the session waits for your first message."),
			el(".pair", field("Agent", this.agent), field("Model", this.model, "Empty: the agent's default")),
			this.reason,
			field("Directory", this.dir, "An absolute path; the session's only root"),
			field("Permissions", this.permissions), this.lock,
			el(".check", this.once, el("label", {for: "once"}, "End after the first turn")),
			el("details.fold", el("summary", "Limits, name and labels"),
				el(".trio", this.limits.map(([, control, label]) => field(label, control))),
				el(".pair", field("Name", this.name), field("Labels", this.labels, "NAME=VALUE, separated by spaces"))),
			this.models, this.dirs, this.alert,
			el(".blockhead", el("h2", "Equivalent command"), copyButton("Copy", () => commandLine(this.body()))),
			this.line, el(".submit", start));
		this.node = el(".page.narrow", el("h1", "New session"), form);
	}

	start() {
		get("/v1/agents", {fresh: true}).then(({agents}) => {
			this.agents = agents;
			replace(this.agent, el("option", {value: ""}, "Default"), agents.map(agent => el("option", {value: agent.name, disabled: !agent.ready},
				safeString(agent.name) + (agent.ready ? (agent.version ? " " + safeString(agent.version) : "") : " (not ready)"))));
			const missing = agents.filter(agent => !agent.ready && agent.reason);
			replace(this.reason, missing.length > 0 && el("details", el("summary", plural(missing.length, "agent") + " not ready"),
				el("ul", missing.map(agent => el("li", el("strong", oneLine(agent.name)), ": ", oneLine(agent.reason))))));
			this.draw();
		}).catch(error => replace(this.alert, problemBox(error)));
		const dirs = new Set([...this.app.known.values()].map(session => session.dir));
		offer(this.dirs, dirs);
		get("/v1/sessions", {all: true, limit: 50}).then(({sessions}) => {
			for (const session of sessions) dirs.add(session.dir);
			offer(this.dirs, dirs);
			this.dir.value ||= sessions[0]?.dir ?? "";
			this.draw();
		}).catch(() => {});
		this.draw();
		this.prompt.focus();
	}

	destroy() {
		this.dead = true;
	}

	body() {
		const body = {dir: this.dir.value.trim()};
		for (const key of ["agent", "model", "permissions", "name"]) {
			if (this[key].value.trim()) body[key] = this[key].value.trim();
		}
		if (this.prompt.value.trim()) body.prompt = this.prompt.value;
		if (this.once.checked && body.prompt) body.once = true;
		const labels = Object.fromEntries([...this.labels.value.matchAll(/(\S*?)=(\S*)/g)].map(match => match.slice(1)));
		if (Object.keys(labels).length) body.labels = labels;
		const limits = {};
		for (const [key, control] of this.limits) {
			const value = control.value.trim();
			if (value) limits[key] = control.inputMode === "text" || isNaN(value) ? value : Number(value);
		}
		if (Object.keys(limits).length) body.limits = limits;
		return body;
	}

	draw() {
		const wide = ["workspace", "all"].includes(this.permissions.value);
		if (wide && this.lock.hidden) this.lock.draw();
		this.lock.hidden = !wide;
		const agent = this.agents?.find(one => one.name === this.agent.value) ?? (this.agent.value ? null : this.agents?.find(one => one.ready));
		offer(this.models, agent?.models ?? []);
		// Another agent's model does not survive a change of the agent.
		const foreign = this.agents?.some(one => one !== agent && one.models.includes(this.model.value));
		if (foreign && !agent?.models.includes(this.model.value)) this.model.value = "";
		replace(this.line, safeText(commandLine(this.body())));
	}
}
