// Permission requests: the badge, the list, and the dialog that answers them.
import {chip, el, fact, field, inOrder, oneLine, openDialog, refresh, replace, safeString, safeText, table, throttled} from "./dom.js";
import {absolute, clockTime, duration, pathSpan, plural, timeElement} from "./format.js";
import {approvalPath, get, linkTo, post, problemBox} from "./api.js";
import {diffFiles, diffToggle} from "./diff.js";
import {commandOf, jsonText, otherArguments} from "./items.js";

// Buttons do nothing until then, so that a key meant for something else answers nothing.
const ARM_DELAY = 700;

function toolOf(approval) {
	return approval.tool ?? approval.event?.tool ?? "tool";
}

function summaryOf(approval) {
	return approval.summary || commandOf(approval.event?.input) || toolOf(approval);
}

function leftOf(expires) {
	const left = Date.parse(expires) - Date.now();
	if (!Number.isFinite(left)) return "";
	return left <= 0 ? "expired" : duration(left < 10000 ? Math.ceil(left / 1000) * 1000 : left) + " left";
}

// What a diff compares with, if the daemon has read it.
function asOf({files_read_at: read, asked_at: asked}) {
	if (!read) return null;
	const late = Date.parse(read) - Date.parse(asked) > 10000;
	return el("span.hint", {title: absolute(read)}, "Compared with the disk as of " + (late ? clockTime(read) : "the request"));
}

function countdown(approval) {
	return el("span.left", {"data-expires": approval.expires_at}, leftOf(approval.expires_at));
}

// Takes the approval code, unless this browser may approve already.
export function unlockBox(app, done) {
	const box = el(".lock");
	box.draw = problem => {
		const unlock = async () => {
			try {
				await post("/v1/browser-session/approve", {code: code.value.trim()}, {quiet: true});
				app.canApprove = true;
				for (const one of document.querySelectorAll(".lock")) one.draw();
				done();
			} catch (error) {
				if (error.status === 401) dispatchEvent(new Event("ostler-login"));
				box.draw(error);
				box.querySelector("input").focus();
			}
		};
		// Not a form: it may be inside of one.
		const code = el("input", {type: "password", autocomplete: "off", spellcheck: "false", onkeydown: event => {
			if (event.key !== "Enter") return;
			event.preventDefault();
			unlock();
		}});
		replace(box, !app.canApprove && [el(".unlock",
			field("Approval code", code, "This browser cannot approve yet. `ostler serve --print-code` prints the code."),
			el("button", {onclick: unlock}, "Unlock")), problem && problemBox(problem)]);
	};
	box.draw();
	return box;
}

export class ApprovalDesk {
	constructor(app) {
		this.app = app;
		this.pending = [];
		this.listeners = new Set();
		this.refresh = throttled(() => this.load(), 150);
		this.ask = inOrder(() => get("/v1/approvals", {state: "pending"}));
		this.dialog = null;
		setInterval(() => this.tick(), 1000);
	}

	start() {
		this.app.live.on(events => {
			if (events.some(event => ["permission", "ended", "turn_ended"].includes(event.type))) this.refresh();
		});
		this.app.live.onState(state => {
			if (state === "live") this.refresh();
		});
		this.load();
	}

	on(listener) {
		this.listeners.add(listener);
		listener();
		return () => this.listeners.delete(listener);
	}

	async load() {
		try {
			const answer = await this.ask();
			if (!answer) return;
			const before = this.pending.length;
			this.pending = answer.approvals ?? [];
			if (this.pending.length > before) this.app.announce(plural(this.pending.length, "request") + " for approval");
			for (const listener of [...this.listeners]) listener();
			this.dialog?.check?.();
		} catch {
			// The header shows that the daemon does not answer.
		}
	}

	tick() {
		for (const node of document.querySelectorAll(".left[data-expires]")) {
			const text = leftOf(node.dataset.expires);
			if (node.textContent !== text) node.textContent = text;
			if (text === "expired") this.refresh();
		}
	}

	async review(id) {
		if (this.dialog?.open) return;
		try {
			this.open(this.pending.find(one => one.id === id) ?? await get(approvalPath(id)));
		} catch (error) {
			this.app.announce(error.message);
		}
	}

	open(approval) {
		if (this.dialog?.open) return;
		const armed = Date.now() + ARM_DELAY;
		const title = el("h2", {id: "ask", tabindex: -1}, "Allow ", oneLine(toolOf(approval)), "?");
		const asked = approval.event?.input ?? null;
		const command = commandOf(asked);
		const exact = el(".exact");
		const pre = (label, text, name = "") => text && el("pre", {class: name, tabindex: 0, "aria-label": label}, safeText(text));
		const draw = () => {
			const rest = diff => pre("Other arguments", otherArguments(asked, diff), "rest");
			if (approval.diff?.length) refresh(exact, el(".diffbar", asOf(approval), diffToggle(draw)), diffFiles(approval.diff), rest(approval.diff));
			else if (command === null) replace(exact, pre("Input", jsonText(asked)));
			else replace(exact, pre("Command", command, "command"), rest());
		};
		draw();
		const outcome = el("div");
		const reason = el("textarea", {rows: 1});
		const buttons = [];
		const button = (text, kind, work) => {
			// A press counts only if it began after the delay.
			let began = 0;
			const node = el("button", {
				class: kind, "aria-disabled": "true",
				onkeydown: event => {
					if (event.repeat) event.preventDefault();
					else began = Date.now();
				},
				onpointerdown: () => (began = Date.now()),
				onclick: event => {
					const from = began || (event.detail === 0 ? Date.now() : 0);
					began = 0;
					if (from < armed || node.getAttribute("aria-disabled") === "true") return;
					if (this.app.canApprove) work();
					else codeBox.querySelector("input").focus();
				},
			}, text);
			buttons.push(node);
			return node;
		};
		let isOver = false;
		const enable = on => buttons.forEach(node => node.setAttribute("aria-disabled", String(!on || isOver)));
		const answer = async (body, said) => {
			enable(false);
			try {
				await post(approvalPath(approval.id), body);
				this.app.announce(said);
				dialog.close();
				this.load();
			} catch (error) {
				if (error.status === 403 || error.cause === "approval_code") {
					this.app.canApprove = false;
					codeBox.draw();
				} else {
					replace(outcome, problemBox(error));
				}
				enable(true);
			}
		};
		const codeBox = unlockBox(this.app, () => title.focus());
		const always = approval.always && el(".always",
			button("Allow always", "", () => answer({decision: "allow", always: true}, "Allowed for this session")),
			el("p", safeText(approval.always)), el("p.hint", approval.always_rule ? "As a rule of a policy, before the one that asked:" : "No rule of a policy says the same."),
			approval.always_rule && el("pre", {tabindex: 0, "aria-label": "Rule"}, safeText(approval.always_rule)));
		const dialog = el("dialog.ask", {"aria-labelledby": "ask"},
			el(".askhead", title, countdown(approval),
				el("button.ghost", {onclick: () => dialog.close()}, "Later")),
			exact,
			el("dl.inline",
				fact("Agent", oneLine(approval.agent ?? "")),
				fact("Session", el("a", {href: linkTo(approval.session), onclick: () => dialog.close()},
					oneLine(approval.name ?? approval.session.slice(0, 8)))),
				fact("Directory", el("span.wrap", oneLine(approval.dir ?? ""))),
				fact("Asked because", approval.rule ? safeText(approval.rule) : "the agent asks before it does this")),
			codeBox, outcome,
			el(".answers",
				el(".yes", button("Allow once", "primary", () => answer({decision: "allow"}, "Allowed once")), always),
				el(".no", field("Reason for the agent (optional)", reason),
					button("Deny", "danger", () => answer({decision: "deny", message: reason.value.trim() || undefined}, "Denied")))));
		dialog.check = async () => {
			if (this.pending.some(one => one.id === approval.id)) return;
			let text = "This request has been answered or withdrawn.";
			try {
				const now = await get(approvalPath(approval.id));
				if (now.state === "pending") return;
				text = "Already " + now.state + (now.decided_by ? " by " + now.decided_by : "") + ".";
			} catch {
				// It is gone.
			}
			isOver = true;
			enable(false);
			replace(outcome, el("p.problem", {role: "status"}, oneLine(text)));
		};
		this.dialog = dialog;
		// The event comes late: the next request may be open by then.
		dialog.addEventListener("close", () => {
			if (this.dialog === dialog) this.dialog = null;
		});
		openDialog(dialog, title, () => document.querySelector(".request button") ?? document.querySelector("main h1"));
		dialog.scrollTop = 0;
		setTimeout(() => enable(true), ARM_DELAY);
	}
}

export class ApprovalsView {
	constructor(app) {
		this.app = app;
		this.list = el(".requests");
		this.past = el("div");
		this.cursor = null;
		this.rows = [];
		this.askPast = inOrder(cursor => get("/v1/approvals", {state: "decided", limit: 50, cursor}));
		this.lock = unlockBox(app, () => this.node.querySelector("h1").focus());
		this.node = el(".page", el("h1", "Approvals"), this.list, this.lock,
			el("h2", "Decided"), this.past);
		app.setTitle("Approvals");
	}

	start() {
		let before = null;
		this.off = this.app.approvals.on(() => {
			this.draw();
			const now = this.app.approvals.pending.map(approval => approval.id).join();
			if (now !== before) this.loadPast();
			before = now;
		});
		this.app.checkLogin().then(() => this.lock.draw());
	}

	destroy() {
		this.off?.();
	}

	draw() {
		const pending = this.app.approvals.pending;
		const key = JSON.stringify(pending);
		if (key === this.drawn) return;
		this.drawn = key;
		refresh(this.list, pending.length === 0 && el("p.empty", "Nothing waits for approval."), pending.map(approval => {
			const review = el("button.primary", {"data-key": approval.id, onclick: () => this.app.approvals.review(approval.id)},
				"Review", el("span.vh", " " + safeString(summaryOf(approval)).slice(0, 80)));
			return el("article.request",
				el("p.what", oneLine(summaryOf(approval))),
				el("p.hint", el("strong", oneLine(toolOf(approval))), " · ", oneLine(approval.agent ?? ""), " in ",
					pathSpan(approval.dir), " · ",
					el("a", {href: linkTo(approval.session)}, oneLine(approval.name ?? "session")),
					" · asked ", timeElement(approval.asked_at), " · ", countdown(approval)),
				review);
		}));
		if (document.activeElement === this.list) (this.list.querySelector("button") ?? this.node.querySelector("h1")).focus();
	}

	async loadPast(more) {
		try {
			const page = await this.askPast(more ? this.cursor : "");
			if (!page) return;
			this.rows = more ? [...this.rows, ...page.approvals] : page.approvals;
			this.cursor = page.next ?? null;
		} catch (error) {
			replace(this.past, problemBox(error, () => this.loadPast()));
			return;
		}
		if (this.rows.length === 0) {
			replace(this.past, el("p.empty", "Nothing has been decided yet."));
			return;
		}
		const tones = {allowed: "done", denied: "bad"};
		refresh(this.past, table("grid.decided", el("span.vh", "Decided requests, newest first"), ["Decision", "Request", "Agent", "By", "When"],
			this.rows.map(approval => el("tr",
				el("td", chip(tones[approval.state] ?? "quiet", approval.state)),
				el("td.main", el("a.what", {href: linkTo(approval.session, approval.event?.seq)}, oneLine(summaryOf(approval))),
					approval.message && el("span.sub", oneLine(approval.message))),
				el("td", oneLine(approval.agent)), el("td", oneLine(approval.decided_by ?? "—")),
				el("td", timeElement(approval.decided_at ?? approval.asked_at))))),
		this.cursor && el("button.more", {onclick: () => this.loadPast(true)}, "Show more"));
	}
}
