// The page: login, routes, header, keyboard.
import {copyButton, el, moveFocus, openDialog, replace, safeString} from "./dom.js";
import {makeFormats, plural, refreshTimes} from "./format.js";
import {daemonSource, exportSource, get, isKey, logIn, problemBox, request} from "./api.js";
import {LiveFeed} from "./live.js";
import {SessionView} from "./session.js";
import {ApprovalDesk, ApprovalsView} from "./approvals.js";
import {NewSessionView, SessionsView} from "./sessions.js";
import {SearchView} from "./search.js";
import {UsageView} from "./usage.js";

const KEYS = [
	["j, k", "next and previous row"], ["Enter", "open the row"], ["/", "filter or search"],
	["g s", "sessions"], ["g a", "approvals"], ["g f", "search"], ["g u", "usage"], ["g n", "new session"],
	["1, 2, 3", "conversation, changes, events"], ["G", "end of the conversation"], ["i", "write a message"],
	["Ctrl Enter", "send the message"], ["Esc", "leave a field or dialog, or go back to the sessions"], ["?", "this help"],
];
// What j and k move through, besides the conversation.
const ROWS = "td.main a, .request button, .found li a";
// How long `g` waits for its second key, in milliseconds.
const PREFIX_TIME = 2000;
const LIVE_NAMES = {live: "Live", behind: "Reconnecting", connecting: "Connecting"};

class App {
	constructor() {
		this.known = new Map();
		this.canApprove = false;
		this.view = null;
		this.routed = new Set();
		this.main = byId("view");
		this.status = byId("status");
		this.header = byId("top");
	}

	announce(text) {
		this.status.textContent = "";
		this.status.textContent = text;
	}

	setTitle(text) {
		this.title = safeString(text);
		const count = this.approvals?.pending.length ?? 0;
		document.title = (count ? "(" + count + ") " : "") + this.title + " · Ostler";
	}

	run() {
		this.source = daemonSource;
		const fragment = new URLSearchParams(location.hash.slice(1));
		const code = fragment.get("login");
		if (code) {
			// The code leaves the address before anything else happens.
			history.replaceState(null, "", location.pathname + "#" + (fragment.get("next") ?? "/"));
			logIn(code).then(() => this.open(), error => this.showLogin(error));
		} else this.open();
	}

	open() {
		this.live = new LiveFeed();
		this.approvals = new ApprovalDesk(this);
		addEventListener("hashchange", event => {
			if (!this.routed.delete(event.newURL)) this.route();
		});
		// The address is a route: the link moves the focus only.
		byId("skip").addEventListener("click", event => {
			event.preventDefault();
			this.main.focus();
		});
		addEventListener("ostler-login", () => this.showLogin());
		addEventListener("ostler-check", () => this.checkLogin());
		document.addEventListener("keydown", event => this.key(event));
		byId("help").addEventListener("click", () => this.help());
		setInterval(() => refreshTimes(document), 10000);
		this.route(true);
		this.checkLogin().then(fine => {
			if (!fine) return;
			this.live.start();
			this.approvals.start();
		});
		this.live.onState(state => this.drawLive(state));
		this.approvals.on(() => this.drawBadge());
		// While the first requests are under way.
		makeFormats();
	}

	async checkLogin() {
		try {
			const session = await get("/v1/browser-session", {}, {quiet: true});
			this.canApprove = session.can_approve;
			if (session.authenticated) return true;
			this.showLogin();
		} catch {
			// The views show that the daemon does not answer.
			return this.loggedOut !== true;
		}
		return false;
	}

	showLogin(error) {
		if (this.loggedOut) return;
		this.loggedOut = true;
		document.querySelector("dialog[open]")?.close();
		this.live?.stop();
		this.view?.destroy();
		document.body.classList.add("out");
		// A login in another tab is one of this browser.
		addEventListener("storage", event => isKey(event) && location.reload());
		document.title = "Log in · Ostler";
		replace(this.main, el(".page.narrow.login", el("h1", "This browser is not logged in"),
			el("p", "Run this in a terminal. It opens the page with a link that works once."),
			el(".blockhead.commandline", el("code", "ostler open"), copyButton("Copy", "ostler open")),
			error && problemBox(error)));
	}

	drawLive(state) {
		const node = byId("live");
		node.className = "live " + state;
		node.lastElementChild.textContent = LIVE_NAMES[state];
		node.title = state === "live" ? "Events arrive as they happen" : "Events may be missing until the connection is back";
	}

	drawBadge() {
		const count = this.approvals.pending.length;
		const badge = byId("badge");
		badge.hidden = count === 0;
		replace(badge, String(count), el("span.vh", count === 1 ? " waits" : " wait"));
		this.setTitle(this.title ?? "Ostler");
	}

	// Opens a view at once, so that the next key belongs to it. The event comes later.
	visit(hash) {
		const before = location.href;
		location.hash = hash;
		if (location.href === before || !this.live) return;
		this.routed.add(location.href);
		this.route();
	}

	route(first) {
		if (this.loggedOut) return;
		const [path, search] = location.hash.replace(/^#/, "").split("?");
		const query = new URLSearchParams(search ?? "");
		const [, name, id, part] = path.split("/").map(decodePart);
		if (name === "s" && id && this.view instanceof SessionView && this.view.id === id) {
			this.view.go(part);
			return;
		}
		this.view?.destroy();
		const View = {approvals: ApprovalsView, search: SearchView, usage: UsageView, new: NewSessionView}[name] ?? SessionsView;
		this.view = name === "s" && id ? new SessionView(this, id, part) : new View(this, query);
		replace(this.main, this.view.node);
		const links = [...this.header.querySelectorAll("nav a")];
		const here = links.find(link => link.getAttribute("href") === "#/" + name) ?? links[0];
		for (const link of links) link.removeAttribute("aria-current");
		here.setAttribute("aria-current", "page");
		scrollTo(0, 0);
		this.view.start();
		if (first !== true && !this.main.contains(document.activeElement)) this.main.querySelector("h1")?.focus({preventScroll: true});
	}

	key(event) {
		if (this.loggedOut || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
		if (document.querySelector("dialog[open]")) return;
		const target = event.target;
		const typing = target.closest?.("input, textarea, select");
		if (event.key === "Escape") {
			// Its default would empty a search field.
			event.preventDefault();
			if (typing) target.blur();
			else if (this.view instanceof SessionView || this.view instanceof NewSessionView) this.visit("#/");
			return;
		}
		if (typing) return;
		let done = true;
		// Between the presses: a busy page handles them later.
		const isSecond = event.timeStamp - this.prefix < PREFIX_TIME;
		this.prefix = undefined;
		if (isSecond) {
			const to = {s: "", a: "approvals", f: "search", u: "usage", n: "new"}[event.key];
			if (to !== undefined) this.visit("#/" + to);
		} else if (event.key === "g") {
			this.prefix = event.timeStamp;
		} else if (event.key === "?") {
			this.help();
		} else if (event.key === "/") {
			const box = byId("filter");
			if (!box) this.visit("#/search");
			box?.focus();
			box?.select();
		} else {
			done = this.view.key ? this.view.key(event) : moveFocus(event, [...this.main.querySelectorAll(ROWS)]);
		}
		if (done) event.preventDefault();
	}

	help() {
		const close = el("button.primary", {onclick: () => dialog.close()}, "Close");
		const out = el("button.ghost", {onclick: async () => {
			await request("DELETE", "/v1/browser-session", undefined, {quiet: true}).catch(() => {});
			location.reload();
		}}, "Log out");
		const dialog = el("dialog.help", {"aria-labelledby": "helptitle"}, el("h2", {id: "helptitle"}, "Keyboard"),
			el("dl.keys", KEYS.map(([keys, text]) => [el("dt", keys.split(/ |, /).flatMap((key, index) => [index ? " " : "", el("kbd", key)])), el("dd", text)])),
			el("p.hint", "Approvals have no key: they are answered with their buttons."),
			el(".submit", this.live && out, close));
		openDialog(dialog, close, () => byId("help"));
	}

	runExport(data) {
		this.source = () => exportSource(data);
		replace(this.header, el("span.brand", "Ostler"),
			el("span.hint", "Exported session · " + plural(data.transcript.items.length, "entry", "entries")));
		byId("skip").remove();
		const part = () => location.hash.replace(/^#/, "");
		this.view = new SessionView(this, data.session.id, part());
		replace(this.main, this.view.node);
		this.view.start();
		addEventListener("hashchange", () => this.view.go(part()));
		document.addEventListener("keydown", event => this.key(event));
	}
}

function byId(id) {
	return document.getElementById(id);
}

function decodePart(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

function boot() {
	const app = new App();
	const exported = byId("ostler-data");
	if (exported) app.runExport(JSON.parse(exported.textContent));
	else app.run();
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", boot);
else boot();
