// Search over everything that was said, done and returned.
import {el, input, oneLine, refresh, remember, replace, safeString, select, throttled} from "./dom.js";
import {pathSpan, plural, timeElement, titleOf} from "./format.js";
import {get, linkTo, problemBox} from "./api.js";
import {stateChip} from "./session.js";

const SPEAKERS = [["", "Everything"], ["user", "Prompts"], ["agent", "Replies"], ["thinking", "Thoughts"], ["tool", "Tool calls"], ["result", "Tool results"]];
const SPEAKER_NAMES = {user: "Prompt", agent: "Reply", thinking: "Thought", tool: "Tool call", result: "Tool result"};
const PERIODS = [["", "Any time"], ["1", "Last day"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["90", "Last 90 days"]];

export function daysAgo(days) {
	return days ? new Date(Date.now() - Number(days) * 86400000).toISOString().replace(/\.\d+Z/, "Z") : "";
}

export class SearchView {
	constructor(app, query) {
		this.app = app;
		app.setTitle("Search");
		this.text = input("Search", {type: "search", id: "filter", placeholder: "Search prompts, replies, thoughts, tool calls and results", value: query.get("q")});
		this.speaker = select("Kind", SPEAKERS, query.get("speaker"));
		this.agent = input("Agent", {value: query.get("agent")});
		this.dir = input("Directory", {value: query.get("dir")});
		this.period = select("Period", PERIODS, query.get("days"));
		this.status = el("p.hint");
		this.results = el(".results");
		this.more = el("button.more", {hidden: true, onclick: () => this.load(true)}, "Show more");
		this.later = throttled(() => this.load(), 300);
		const form = el("form.filters", {role: "search", oninput: this.later, onsubmit: () => this.load()},
			this.text, this.speaker, this.period, this.agent, this.dir);
		this.node = el(".page", el("h1", "Search"), form, this.status, this.results, this.more);
	}

	start() {
		if (this.text.value) this.load();
		this.text.focus();
	}

	destroy() {
		this.dead = true;
		this.later.cancel();
	}

	async load(more) {
		const turn = (this.turn = (this.turn ?? 0) + 1);
		const q = this.text.value.trim();
		const state = {q, speaker: this.speaker.value, agent: this.agent.value.trim(), dir: this.dir.value.trim()};
		remember("#/search", {...state, days: this.period.value});
		try {
			const page = q ? await get("/v1/search", {...state, since: daysAgo(this.period.value), limit: 50, cursor: more ? this.next : ""}) : {matches: []};
			if (this.dead || turn !== this.turn) return;
			this.next = page.next ?? null;
			this.matches = more ? [...this.matches, ...page.matches] : page.matches;
			this.draw();
		} catch (error) {
			if (!this.dead && turn === this.turn) replace(this.results, problemBox(error));
		}
	}

	draw() {
		const groups = new Map();
		for (const match of this.matches) {
			const id = match.session.id;
			groups.set(id, [...(groups.get(id) ?? []), match]);
			this.app.known.set(id, match.session);
		}
		this.status.textContent = this.matches.length === 0 ? this.text.value.trim() && "Nothing found."
			: plural(this.matches.length, "match", "matches") + (this.next ? " so far" : "") + " in " + plural(groups.size, "session");
		if (this.status.textContent) this.app.announce(this.status.textContent);
		refresh(this.results, [...groups.values()].map(matches => this.group(matches)));
		this.more.hidden = !this.next;
	}

	group(matches) {
		const session = matches[0].session;
		const at = match => linkTo(session.id, match.seq);
		return el("section.found",
			el(".foundhead", el("h2", el("a", {href: linkTo(session.id)}, oneLine(titleOf(session)))),
				stateChip(session), el("span.hint", oneLine(session.agent), " · ", pathSpan(session.dir))),
			el("ul", matches.map(match => el("li", el("a", {href: at(match)},
				el("span.speaker", SPEAKER_NAMES[match.speaker] ?? safeString(match.speaker)),
				el("span.snippet", (match.snippet ?? [{text: match.excerpt ?? "", hit: false}])
					.map(piece => (piece.hit ? el("mark", oneLine(piece.text)) : oneLine(piece.text)))),
				timeElement(match.at))))));
	}
}
