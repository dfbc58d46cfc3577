// One session: conversation, changes, events; control; facts, copies, exports.
import {chip, copyButton, el, fact, icon, inOrder, oneLine, refresh, replace, safeString, safeText, select, throttled} from "./dom.js";
import {COUNTERS, absolute, causeName, clockElement, cost, costSource, costSpan, failed, labelTags, plural, stateOf, timeElement, titleOf, tokensOf, tokensSpan, whole} from "./format.js";
import {get, linkTo, post, problemBox, sessionPath} from "./api.js";
import {LogList} from "./loglist.js";
import {countsOf, diffToggle, fileDiff} from "./diff.js";
import {applyEvent, block, fold, itemHeight, itemKey, jsonText, renderItem, streamMore} from "./items.js";
import {timelineStrip, timelineTable} from "./timeline.js";

export function stateChip(session) {
	const {name, tone} = stateOf(session);
	return chip(tone, name);
}

// The part of a session's address: a tab, or the number of an event.
function placeOf(part) {
	return {
		tab: part === "changes" || part === "events" ? part : "conversation",
		seq: /^\d+$/.test(part ?? "") ? Number(part) : null,
	};
}

const END = Number.MAX_SAFE_INTEGER;

export class SessionView {
	constructor(app, id, part) {
		this.app = app;
		this.id = id;
		this.abort = new AbortController();
		this.source = app.source(this.abort.signal);
		this.readOnly = this.source.readOnly;
		this.askSession = inOrder(this.source.session);
		this.askTimeline = inOrder(this.source.timeline);
		Object.assign(this, placeOf(part));
		this.session = app.known.get(id) ?? null;
		this.folds = new Set();
		this.depths = new Map();
		this.tail = {text: null};
		this.pending = [];
		this.queue = [];
		this.known = 0;
		this.fresh = 0;
		this.stop = [];
		this.node = el(".session");
		this.refreshSession = throttled(() => this.loadSession(), 400);
		this.refreshTimeline = throttled(() => this.loadTimeline(), 3000);
		this.refreshTail = throttled(() => this.loadTail(), 120);
		for (const timer of [this.refreshSession, this.refreshTimeline, this.refreshTail]) this.stop.push(timer.cancel);
		this.build();
	}

	destroy() {
		this.dead = true;
		this.abort.abort();
		this.list?.destroy();
		for (const stop of this.stop) stop();
		cancelAnimationFrame(this.frame);
	}

	build() {
		this.title = el("h1", "…");
		this.meta = el(".meta");
		this.actions = el(".actions");
		this.banner = el(".banner", {hidden: true});
		this.alert = el("div");
		this.tabs = el("nav.tabs", {"aria-label": "Session"});
		this.strip = el(".timeline");
		this.facts = el("div");
		this.turns = el("div");
		this.main = el(".pane");
		this.pill = el("button.pill", {hidden: true, onclick: () => (this.list ? this.toLast() : this.showChanges())});
		this.composer = el(".composer", {hidden: true});
		const wide = matchMedia("(min-width: 75rem)");
		const details = el("details.aside", el("summary", "Details, copy and export"),
			el(".facts", this.facts, this.copies(), this.turns));
		const aside = el("aside", {"aria-label": "About this session"}, details);
		const content = el(".content", this.main, el(".foot", this.pill, this.alert, this.banner, this.composer));
		const columns = el(".columns", content);
		// The order on the screen is that of the keys.
		const fit = () => {
			details.open = wide.matches;
			columns[wide.matches ? "append" : "prepend"](aside);
		};
		fit();
		wide.addEventListener("change", fit);
		this.stop.push(() => wide.removeEventListener("change", fit));
		this.bar = el(".bar", this.tabs, this.strip);
		this.node.append(el(".head", this.title, this.actions, this.meta), this.bar, columns);
		this.drawTabs();
		if (this.session) this.drawSession();
	}

	start() {
		this.listen();
		this.first = this.showFirst();
		return this.first;
	}

	// Before the first request, so that no event falls between its answer and the stream.
	listen() {
		const {live, approvals} = this.app;
		if (!live) return;
		let state = live.state;
		this.stop.push(live.on(events => this.hear(events)), approvals.on(() => this.drawBanner()), live.onState(now => {
			if (now === "live" && state !== "live") this.catchUp();
			state = now;
		}));
	}

	async showFirst() {
		// The first page does not wait for the session.
		if (!this.session && this.tab === "conversation") {
			this.early = this.source.transcript(this.id, this.seq === null ? {before: END, limit: 120} : {around: this.seq, limit: 120});
			this.early.catch(() => {});
		}
		try {
			if (!this.session || this.session.last_seq === undefined) await this.loadSession(true);
			else this.loadSession();
		} catch (error) {
			this.failed = true;
			replace(this.main, problemBox(error));
			replace(this.title, "Session");
			return;
		}
		if (this.dead) return;
		await this.showTab();
		if (this.dead) return;
		// They must not delay the first page.
		this.loadTimeline();
		this.loadChildren();
	}

	live() {
		return this.session && this.session.state !== "ended" && !this.readOnly;
	}

	// Whether the daemon runs the session.
	own() {
		return this.live() && this.session.driver !== "other" && this.session.managed !== false;
	}

	href(part) {
		return this.readOnly ? "#" + part : linkTo(this.id, part);
	}

	drawTabs() {
		const tab = (name, text, extra) => el("a", {
			href: this.href(name === "conversation" && !this.readOnly ? "" : name),
			"aria-current": this.tab === name && "page",
		}, text, extra);
		refresh(this.tabs, tab("conversation", "Conversation"),
			tab("changes", "Changes", this.changes?.files.length > 0 && [" ", countsOf(this.changes.added, this.changes.removed)]),
			!this.readOnly && tab("events", "Events"));
	}

	// Called on a change of the address within this session.
	go(part) {
		const place = placeOf(part);
		if (place.tab !== this.tab || !this.list) {
			Object.assign(this, place);
			this.drawTabs();
			if (this.session) this.showTab();
		} else if (place.seq !== null) {
			this.mark(place.seq, true, true);
		}
	}

	showTab() {
		this.list?.destroy();
		this.list = null;
		this.pill.hidden = true;
		replace(this.main);
		const shown = this.tab === "conversation" ? this.showConversation()
			: this.tab === "changes" ? this.showChanges() : this.showEvents();
		this.drawComposer();
		this.node.dataset.tab = this.tab;
		return shown;
	}

	async loadSession(first) {
		try {
			const session = await this.askSession(this.id);
			if (this.dead || !session) return;
			this.session = session;
		} catch (error) {
			if (first) throw error;
			return;
		}
		this.app.known.set(this.id, this.session);
		this.drawSession();
	}

	// The status line says what happened.
	announce({type, outcome}) {
		const said = {turn_started: "Working", turn_ended: "Turn done", ended: "Session ended"}[type];
		if (said) this.app.announce(outcome && outcome.status !== "success" ? said.split(" ")[0] + " " + (failed(outcome) ? "failed: " : "") + causeName(outcome.cause) : said);
	}

	drawSession() {
		const session = this.session;
		// Most events change nothing here.
		const key = JSON.stringify({...session, last_seq: 0});
		if (key === this.drawn) return;
		this.drawn = key;
		// A line more in the heading must not move what is being read.
		const anchor = scrollY > 0 ? this.list?.anchor() : null;
		const title = titleOf(session);
		replace(this.title, oneLine(title));
		this.app.setTitle(title);
		const sep = () => el("span.sep", {"aria-hidden": "true"}, "·");
		replace(this.meta, stateChip(session), el("span.agent", oneLine(session.agent)),
			session.model && [sep(), el("span", oneLine(session.model))],
			sep(), el("span.dir", {title: safeString(session.dir)}, oneLine(session.dir)),
			sep(), plural(session.turns ?? 0, "turn"),
			sep(), tokensSpan(session.usage, " tokens"), sep(), costSpan(session.usage),
			sep(), timeElement(session.created_at));
		this.drawActions();
		this.drawFacts();
		this.drawBanner();
		this.drawComposer();
		this.list?.hold(anchor);
	}

	drawActions() {
		if (this.readOnly) return;
		const state = this.session.state;
		const names = [];
		if (state === "ended") names.push("Resume", "Fork");
		else if (this.own()) {
			if (state === "working") names.push("Interrupt");
			names.push(state === "paused" ? "Resume" : "Pause", "Fork", "Stop");
		}
		if (names.join() === this.actionNames) return;
		this.actionNames = names.join();
		refresh(this.actions, names.map(name => el("button", {onclick: () => this.act(name)}, name)));
	}

	async act(name) {
		try {
			const answer = await post(sessionPath(this.id, name.toLowerCase()));
			if (this.dead) return;
			replace(this.alert);
			this.app.announce(name + ": done");
			const id = answer?.id ?? answer?.session?.id;
			if (id && id !== this.id) this.app.visit(linkTo(id));
			else this.refreshSession();
		} catch (error) {
			replace(this.alert, problemBox(error));
		}
	}

	drawFacts() {
		const session = this.session;
		const usage = session.usage ?? {};
		const counters = [...COUNTERS, ["reasoning", "Reasoning"]].map(([key, name]) => usage[key] != null && fact(name, whole(usage[key])));
		const link = id => id && (this.readOnly ? el("code", oneLine(id))
			: el("a", {href: linkTo(id)}, oneLine(id.slice(0, 8))));
		refresh(this.facts,
			el("h2", "Usage"),
			el("dl", fact("Tokens", whole(tokensOf(usage))), counters,
				fact("Cost", cost(usage)), fact("Source", costSource(usage))),
			el("h2", "Session"),
			el("dl", fact("Id", el("code", safeText(session.id))),
				fact("Name", session.name && oneLine(session.name)),
				fact("Directory", el("span.wrap", oneLine(session.dir))),
				session.native_session && fact("Agent's id", el("code", oneLine(session.native_session))),
				fact("Outcome", causeName(session.outcome?.cause)),
				fact("Continues", link(session.continues)),
				fact("Started by", link(session.parent)),
				this.children?.length > 0 && fact("Started", this.children.map(child => el("div", link(child.id), " ", oneLine(titleOf(child)).textContent.slice(0, 40)))),
				fact("Runs in", session.driver === "other" && "another program; it is only shown here"),
				fact("Created", absolute(session.created_at)),
				session.ended_at && fact("Ended", absolute(session.ended_at)),
				fact("Labels", labelTags(session))));
	}

	copies() {
		const path = sessionPath(this.id, "export");
		const file = (format, text) => el("a.button.ghost", {href: path + "?format=" + format, download: true}, icon("down"), text);
		const copy = (format, text) => copyButton(text, () => get(path, {format}, {text: true}));
		return [el("h2", "Copy"),
			el(".buttons", copyButton("Resume command", async () => {
				await this.first;
				return (this.live() ? "ostler attach " : "ostler chat --resume ") + this.session.id;
			}), !this.readOnly && [
				copyButton("Link", () => location.origin + "/" + this.href()), copy("md", "Markdown"), copy("json", "JSON")]),
			!this.readOnly && [el("h2", "Export"),
				el(".buttons", file("html", "HTML"), file("md", "Markdown"), file("json", "JSON"))]];
	}

	// The sessions that this one started.
	async loadChildren() {
		if (this.readOnly) return;
		const page = await get("/v1/sessions", {parent: this.session.id, all: true}, {signal: this.abort.signal}).catch(() => null);
		this.children = page?.sessions;
		if (this.children?.length && !this.dead) this.drawFacts();
	}

	drawBanner() {
		const waiting = (this.app.approvals?.pending ?? []).filter(approval => approval.session === this.id);
		const key = waiting.map(approval => approval.id).join();
		if (key === this.bannerKey) return;
		if (key && this.bannerKey !== undefined) this.app.announce("Needs approval");
		this.bannerKey = key;
		this.banner.hidden = waiting.length === 0;
		refresh(this.banner, waiting.map(approval => el("div", el("strong", "Needs approval"),
			el("span.what", oneLine(approval.summary ?? approval.tool)),
			el("button.primary", {"data-key": approval.id, onclick: () => this.app.approvals.review(approval.id)}, "Review"))));
	}

	async loadTimeline() {
		const timeline = await this.askTimeline(this.id).catch(() => null);
		if (this.dead || !timeline?.turns?.length) return;
		const focused = this.strip.contains(document.activeElement);
		this.slider = timelineStrip(timeline, (seq, focus) => this.openAt(seq, focus));
		replace(this.strip, this.slider);
		this.whereAmI();
		if (focused) this.slider.focus();
		refresh(this.turns, el("h2", "Timeline"), timelineTable(timeline, seq => this.href(seq)));
	}

	openAt(seq, focus = true) {
		if (this.tab === "conversation" && this.list) this.mark(seq, focus);
		else location.hash = this.href(seq);
	}

	depthOf(item) {
		let depth = 0;
		for (let parent = item.parent; parent && depth < 4; parent = this.depths.get(parent)) depth++;
		return depth;
	}

	async loadItems(query) {
		let page = await this.early?.catch(() => null);
		this.early = null;
		const fits = query.after === undefined || !page?.has_before;
		if (!page || !fits) page = await this.source.transcript(this.id, query);
		// The end of a turn has its usage.
		const items = (page.items ?? []).filter(item => item.type !== "usage");
		for (const item of items) if (item.type === "tool" && item.id) this.depths.set(item.id, item.parent ?? null);
		const to = page.has_after ? page.last_seq : Math.max(page.total_events, page.last_seq);
		if (!page.has_after) this.known = Math.max(this.known, to);
		return {items, from: page.has_before ? page.first_seq : 1, to, total: page.total_events};
	}

	showConversation() {
		this.tail = {text: null};
		this.pending = [];
		return this.showList("Conversation", {
			load: query => this.loadItems(query),
			render: (item, row) => renderItem(item, {
				folds: this.folds, depthOf: one => this.depthOf(one), redraw: () => this.list.redraw(row),
			}),
			estimate: itemHeight,
			keyOf: itemKey,
		});
	}

	// Opens at the number in the address, or at the end of a live session.
	async showList(label, parts) {
		const list = new LogList({
			label, ...parts,
			inset: () => this.inset(),
			onPage: error => this.pageDone(error),
			onFollow: follows => this.followed(follows),
			onMove: () => this.whereAmI(),
		});
		this.list = list;
		replace(this.main, el("h2.vh", label), list.root);
		if (this.seq !== null) {
			await list.page({around: this.seq});
			if (list === this.list && !this.dead) this.mark(this.seq, true, true);
		} else if (this.live()) {
			await list.page({before: END});
			if (!this.dead && list === this.list) await list.end();
		} else {
			await list.page({after: 0});
		}
	}

	pageDone(error) {
		// The next text continues the last message.
		const last = this.list?.rows.at(-1)?.item;
		this.tail.text = last?.open ? last : null;
		if (error) {
			replace(this.alert, problemBox(error, () => {
				replace(this.alert);
				this.list.failed = null;
				if (this.list.rows.length === 0) this.showTab();
				else this.list.scrolled();
			}));
		} else if (this.tab === "conversation" && this.list.rows.length === 0) {
			replace(this.main, el("p.empty", this.live() ? "Nothing has been said yet. Send the first message below." : "This session has no messages."));
		}
	}

	inset() {
		const sticky = getComputedStyle(this.bar).position === "sticky";
		return (sticky ? this.bar.offsetHeight : 0) + this.app.header.offsetHeight;
	}

	// Jumps to a number; `open` unfolds what was found there.
	async mark(seq, focus = true, open = false) {
		const row = await this.list.jump(seq, focus);
		if (!row) return;
		const box = open && row.node?.querySelector("details");
		if (box && !box.open) box.firstChild.click();
		row.node?.classList.add("target");
		setTimeout(() => row.node?.classList.remove("target"), 2500);
	}

	whereAmI() {
		if (!this.slider || this.tab !== "conversation" || !this.list?.rows.length) return;
		const row = this.list.topRow();
		this.slider.at(row.from ?? row.seq);
	}

	// The button goes, so the last row takes its focus.
	async toLast() {
		const {list} = this;
		await list.end();
		if (list === this.list) list.rows.at(-1)?.node?.focus({preventScroll: true});
	}

	followed(follows) {
		if (!follows) return;
		this.fresh = 0;
		this.pill.hidden = true;
	}

	hear(events) {
		if (this.failed) return;
		for (const event of events) if (event.session === this.id) this.queue.push(event);
		if (this.queue.length > 0) this.drainSoon();
	}

	drainSoon() {
		if (this.frame) return;
		const run = () => {
			this.frame = 0;
			if (!this.dead && !this.failed) this.drain();
		};
		// A hidden tab draws no frames.
		this.frame = document.hidden ? setTimeout(run, 300) : requestAnimationFrame(run);
	}

	// All events of a frame at once.
	drain() {
		const isLoading = !this.list || (this.list.loading && (this.list.rows.length === 0 || !this.list.atTail()));
		if (!this.session || (this.tab !== "changes" && isLoading)) {
			// The page that is being loaded may or may not have them.
			this.drainSoon();
			return;
		}
		const events = this.queue;
		this.queue = [];
		let stale = events.some(event => event.type !== "text");
		const ended = events.some(event => event.type === "turn_ended" || event.type === "ended");
		for (const event of events) this.announce(event);
		if (stale) this.refreshSession();
		if (ended) this.refreshTimeline();
		if (this.tab === "changes" && ended) this.checkChanges();
		if (this.tab === "changes" || !this.list) return;
		if (this.list.rows.length === 0) {
			this.showTab();
			return;
		}
		if (!this.list.atTail()) {
			// The end is not loaded: the gap grows.
			const last = this.list.rows.at(-1);
			last.to = Math.max(last.to, events.at(-1).seq);
			this.count(0);
			return;
		}
		if (this.tab === "events") {
			this.addRaw(events);
			return;
		}
		const anchor = this.list.anchor();
		const before = this.list.rows.length;
		let changed = false;
		for (const event of events) {
			if (event.seq <= this.known) continue;
			if (event.seq > this.known + 1) {
				// Some are missing: the page is read from there.
				this.pending.push({seq: this.known + 1});
				stale = true;
			}
			this.known = event.seq;
			this.pending.push(event);
			changed = this.apply(event) || changed;
			if (event.type !== "text" || !event.delta) stale = true;
		}
		if (changed) this.list.redrawFrom(anchor);
		this.count(this.list.rows.length - before);
		if (stale) this.refreshTail();
	}

	// Returns whether rows were added or must be redrawn.
	apply(event) {
		const effect = applyEvent(event, this.tail);
		if (!effect) return false;
		if (effect.put) {
			this.list.put(effect.put);
			return true;
		}
		const row = this.list.byKey.get(itemKey(effect.more));
		if (row?.node && row.item === effect.more && !row.dirty) streamMore(row.node, effect.text);
		return false;
	}

	count(more) {
		if (this.list.following) return;
		this.fresh += Math.max(0, more);
		replace(this.pill, icon("down"), this.fresh > 0 ? plural(this.fresh, "new message") : "New text");
		this.pill.hidden = false;
	}

	// What happened between the first page and the start of the stream.
	async catchUp() {
		await Promise.all([this.loadSession(), this.first]);
		while (this.list?.loading) await new Promise(done => setTimeout(done, 30));
		const list = this.list;
		const last = this.session?.last_seq ?? 0;
		if (this.dead || !list?.rows.length || !list.atTail()) return;
		if (this.tab === "events") {
			if (list.rows.at(-1).seq < last) list.insert(await this.loadRaw({after: list.rows.at(-1).seq}));
		} else if (this.known < last) {
			this.pending.push({seq: this.known + 1});
			this.refreshTail();
		}
	}

	// Replaces the provisional rows by the server's.
	async loadTail() {
		const list = this.list;
		if (this.dead || this.tab !== "conversation" || !list?.atTail() || this.reloading) return;
		const first = this.pending[0];
		if (!first) return;
		this.reloading = true;
		try {
			// From the oldest row that can still change.
			let from = first.seq;
			for (let i = list.rows.length - 1; i >= 0 && i >= list.rows.length - 400; i--) {
				const {gap, item} = list.rows[i];
				if (gap) break;
				const unfinished = item.open || (item.type === "tool" && item.ok === undefined);
				if (unfinished || item.last_seq >= first.seq) from = Math.min(from, item.seq);
			}
			const page = await this.loadItems({after: from - 1, limit: 500});
			if (this.dead || list !== this.list) return;
			this.pending = this.pending.filter(event => event.seq > page.to);
			const items = page.items.map(item => this.keepIfSame(item));
			const before = list.rows.length;
			list.insert({...page, items, to: Math.max(page.to, this.known)});
			if (this.pending.length > 0) {
				const anchor = list.anchor();
				for (const event of this.pending) this.apply(event);
				list.redrawFrom(anchor);
			}
			if (list.rows.length > before) this.count(list.rows.length - before);
		} catch {
			// The provisional rows stay; the next event tries again.
		} finally {
			this.reloading = false;
			if (this.pending.some(event => event.type !== "text")) this.refreshTail();
		}
	}

	// An item that did not change keeps its element.
	keepIfSame(item) {
		const row = this.list.byKey.get(itemKey(item));
		if (!row) return item;
		const look = one => [one.last_seq, one.open, one.ok, !one.html, one.kind, !one.diff,
			one.permission?.decision, one.text?.length, one.duration_ms].join();
		return look(row.item) === look(item) ? row.item : item;
	}

	// Offers the changes of another turn. What is being read stays.
	async checkChanges() {
		const changes = await this.source.changes(this.id).catch(() => null);
		if (!changes || this.tab !== "changes" || JSON.stringify(changes) === JSON.stringify(this.changes)) return;
		replace(this.pill, icon("down"), "New changes");
		this.pill.hidden = false;
	}

	async showChanges() {
		if (this.tab !== "changes") return;
		try {
			this.changes = await this.source.changes(this.id);
		} catch (error) {
			replace(this.main, problemBox(error, () => this.showChanges()));
			return;
		}
		if (this.dead || this.tab !== "changes") return;
		this.pill.hidden = true;
		this.drawTabs();
		const {files, note: text} = this.changes;
		const note = text && el("p.hint", safeText(text));
		if (files.length === 0) {
			replace(this.main, el("h2.vh", "Changes"), el("p.empty", "No edits are recorded."), note);
			return;
		}
		const folded = file => "file:" + file.path;
		const anchors = files.map((file, index) => fileDiff(file, index < 30 && !this.folds.has(folded(file)),
			open => this.folds[open ? "delete" : "add"](folded(file))));
		const show = box => {
			box.open = true;
			box.scrollIntoView({block: "start"});
			box.querySelector("summary").focus({preventScroll: true});
		};
		const index = el("ul.filelist", files.map((file, at) => el("li",
			el("button.link", {onclick: () => show(anchors[at])}, el("span.path", oneLine(file.path))), countsOf(file.added, file.removed))));
		refresh(this.main, el(".changes",
			el(".blockhead", el("h2", plural(files.length, "file") + " changed ", countsOf(this.changes.added, this.changes.removed)),
				diffToggle(() => this.showChanges())),
			note, index, anchors));
	}

	showEvents() {
		return this.showList("Events", {
			load: query => this.loadRaw(query),
			render: event => this.renderRaw(event),
			estimate: () => 29,
			keyOf: event => "event:" + event.seq,
		});
	}

	async loadRaw(query) {
		const limit = 300;
		let {after, before} = query;
		if (query.around !== undefined) after = Math.max(0, query.around - 100);
		const page = await this.source.history(this.id, {after, before, limit});
		const items = page.events ?? [];
		const first = items[0]?.seq ?? 1;
		const last = items.at(-1)?.seq ?? 0;
		const total = Math.max(this.session.last_seq ?? 0, page.last ?? 0, last);
		return {
			items, total,
			// A page may be cut where it gets too large.
			from: after !== undefined ? after + 1 : items.length ? first : 1,
			to: last || total,
		};
	}

	renderRaw(event) {
		const {seq, at, session, turn, type, ...rest} = event;
		return el("article.row.event", {tabindex: -1, "aria-label": "Event " + seq},
			fold({key: "event:" + seq, folds: this.folds}, [el("span.no", seq), clockElement(at), el("span.type", oneLine(type)),
				el("span.what", oneLine(JSON.stringify(rest).slice(0, 400)))], () => block("Event", jsonText(event), "h3")));
	}

	addRaw(events) {
		const anchor = this.list.anchor();
		const last = this.list.rows.at(-1).seq;
		const fresh = events.filter(event => event.seq > last);
		if (fresh.length === 0) return;
		// What is missing in between is loaded like any other gap.
		if (fresh[0].seq > last + 1) this.list.rows.push({gap: true, from: last + 1, to: fresh.at(-1).seq});
		else for (const event of fresh) this.list.put(event);
		this.count(fresh.length);
		this.list.redrawFrom(anchor);
	}

	drawComposer() {
		const session = this.session;
		const usable = this.own() && this.tab === "conversation";
		this.composer.hidden = !usable;
		if (!usable) return;
		if (!this.box) this.buildComposer();
		// A message goes into the turn only if the agent accepts that.
		this.when.hidden = session.state !== "working" || !session.steer;
		this.note.textContent = session.state === "paused" ? "Paused: messages wait until you resume." : "";
	}

	buildComposer() {
		const grow = () => (this.box.rows = Math.min(8, this.box.value.split("\n").length));
		this.box = el("textarea", {
			id: "message", rows: 1, placeholder: "Message", "aria-label": "Message", autocomplete: "off",
			onkeydown: event => {
				if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
					event.preventDefault();
					form.requestSubmit();
				}
			},
			oninput: () => grow(),
		});
		this.when = select("When", [["queue", "After this turn"], ["steer", "Into this turn"]], "queue");
		this.when.className = "when";
		this.note = el("span.hint");
		const send = el("button.primary", {type: "submit"}, "Send");
		let key = crypto.randomUUID();
		const form = el("form", {onsubmit: async () => {
			const text = this.box.value;
			if (!text.trim() || send.disabled) return;
			// Emptied at once: what is typed meanwhile is the next message.
			const fill = value => {
				this.box.value = value;
				grow();
			};
			send.disabled = true;
			fill("");
			try {
				const when_busy = this.when.hidden ? "queue" : this.when.value;
				await post(sessionPath(this.id, "messages"), {text, when_busy}, {headers: {"Idempotency-Key": key}});
				key = crypto.randomUUID();
				replace(this.alert);
				this.app.announce("Message sent");
				this.list?.end();
			} catch (error) {
				if (!this.box.value) fill(text);
				replace(this.alert, problemBox(error));
			} finally {
				send.disabled = false;
			}
		}}, this.box, el(".sendbar", this.note, this.when, send));
		this.composer.append(form);
	}

	key(event) {
		const {key} = event;
		const focused = document.activeElement?.closest(".row");
		const by = {j: 1, k: -1}[key];
		if (key >= "1" && key <= "3" && !this.readOnly) {
			this.app.visit(this.href(["", "changes", "events"][key - 1]));
		} else if (key === "i" && !this.composer.hidden) {
			this.box.focus();
		} else if (!this.list?.rows.length) {
			return false;
		} else if (key === "G") {
			this.list.end();
		} else if (by) {
			const row = this.list.step(focused?.row, by);
			if (row && !row.gap) this.reveal(row);
		} else if (key === "Enter" && focused === document.activeElement && focused?.querySelector("details")) {
			focused.querySelector("summary").click();
		} else {
			return false;
		}
		return true;
	}

	reveal(row) {
		this.list.following = false;
		const box = row.node?.getBoundingClientRect();
		const top = this.inset() + 8;
		const bottom = innerHeight - this.composer.offsetHeight - 8;
		const move = by => scrollBy({top: by, behavior: "instant"});
		if (!box) this.list.show(row);
		else if (box.top < top) move(box.top - top);
		else if (box.bottom > bottom) move(Math.min(box.bottom - bottom, box.top - top));
		row.node?.focus({preventScroll: true});
	}
}
