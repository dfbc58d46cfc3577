// A windowed list over the numbers of a session's events. Only rows near the viewport are in the
// document; pages are loaded on demand. The row at the top stays, whatever happens above it.
import {el, holdFocus, lastIndex} from "./dom.js";

const OVERSCAN = 900;
const MAX_HEIGHT = 12e6;
// Rows far from the viewport become gaps again beyond this number.
const MAX_ROWS = 1500;

function startOf(row) {
	return row.from ?? row.seq;
}

export class LogList {
	// `load({after|before|around, limit})` resolves to `{items, from, to, total}`: the items of the
	// events from..=to, of `total`. `inset`: the height of what sticks to the viewport's top.
	constructor({label, ...parts}) {
		Object.assign(this, parts);
		this.before = el("div", {"aria-hidden": "true"});
		this.after = el("div", {"aria-hidden": "true"});
		this.root = el(".log", {role: "log", "aria-live": "off", "aria-label": label},
			this.before, this.after);
		this.rows = [];
		this.byKey = new Map();
		this.offsets = new Float64Array(1);
		this.perSeq = 24;
		this.shown = {first: 0, last: -1};
		this.following = false;
		this.lastY = 0;
		this.onScroll = () => this.scrolled();
		this.sizes = new ResizeObserver(entries => this.resized(entries));
		addEventListener("scroll", this.onScroll, {passive: true});
		addEventListener("resize", this.onScroll, {passive: true});
	}

	destroy() {
		this.dead = true;
		removeEventListener("scroll", this.onScroll);
		removeEventListener("resize", this.onScroll);
		this.sizes.disconnect();
		cancelAnimationFrame(this.frame);
	}

	heightOf(row) {
		if (row.gap) return Math.max(1, (row.to - row.from + 1) * this.perSeq);
		return row.height || row.guess;
	}

	layout() {
		const count = this.rows.length;
		if (this.offsets.length < count + 1) this.offsets = new Float64Array(Math.ceil((count + 1) * 1.5));
		let sum = 0;
		for (let i = 0; i < count; i++) {
			this.offsets[i] = sum;
			sum += this.heightOf(this.rows[i]);
		}
		this.offsets[count] = sum;
		this.total = sum;
	}

	scale() {
		let pixels = 0;
		let missing = 0;
		for (const row of this.rows) {
			if (row.gap) missing += row.to - row.from + 1;
			else pixels += this.heightOf(row);
		}
		const last = this.rows.at(-1);
		const covered = (last?.to ?? last?.seq) - missing;
		if (covered > 0) this.perSeq = Math.max(4, pixels / covered);
		if (missing > 0) this.perSeq = Math.min(this.perSeq, MAX_HEIGHT / missing);
	}

	indexAt(y) {
		return lastIndex(this.rows.length, index => this.offsets[index] <= y);
	}

	// The last row that begins at or before the number.
	indexOf(seq) {
		return lastIndex(this.rows.length, index => startOf(this.rows[index]) <= seq);
	}

	// How far the list begins above the viewport.
	scrollOffset() {
		return -this.root.getBoundingClientRect().top;
	}

	// The row below the sticky header, and where it is.
	anchor() {
		if (this.rows.length === 0) return null;
		const y = this.scrollOffset();
		const edge = Math.max(0, y + this.inset());
		const index = this.indexAt(edge);
		const row = this.rows[index];
		if (!row.gap) return {row, seq: row.seq, delta: this.offsets[index] - y};
		return {seq: row.from + Math.floor((edge - this.offsets[index]) / this.perSeq), delta: edge - y};
	}

	// Puts the anchor back where it was.
	hold(anchor) {
		if (this.following) this.toEnd();
		if (this.following || !anchor) return;
		let index = this.indexOf(anchor.seq);
		while (anchor.row && index > 0 && this.rows[index] !== anchor.row
			&& this.rows[index - 1].seq === anchor.seq) index--;
		let target = this.offsets[index];
		const row = this.rows[index];
		if (row.gap) target += (anchor.seq - row.from) * this.perSeq;
		const move = target - anchor.delta - this.scrollOffset();
		if (Math.abs(move) > 0.5) {
			scrollBy({top: move, behavior: "instant"});
			this.lastY = scrollY;
		}
	}

	toEnd() {
		const bottom = document.documentElement.scrollHeight - innerHeight;
		if (bottom - scrollY > 0.5) scrollTo({top: bottom, behavior: "instant"});
		this.lastY = scrollY;
	}

	scrolled() {
		const y = scrollY;
		const atEnd = document.documentElement.scrollHeight - innerHeight - y <= 2;
		const follows = this.atTail() && (this.following ? y >= this.lastY || atEnd : y > this.lastY && atEnd);
		if (follows !== this.following) {
			this.following = follows;
			this.onFollow(follows);
		}
		this.lastY = y;
		if (!this.frame) {
			this.frame = requestAnimationFrame(() => {
				this.frame = 0;
				this.update(false);
				this.onMove();
			});
		}
	}

	atTail() {
		return !this.rows.at(-1)?.gap;
	}

	// Brings the rows around the viewport into the document.
	update(force) {
		if (this.dead || !this.root.isConnected || this.rows.length === 0) return;
		const width = this.root.clientWidth;
		if (width !== this.width) {
			if (this.width) for (const row of this.rows) row.height = 0;
			this.width = width;
			force = true;
			this.layout();
		}
		const y = this.scrollOffset();
		const {first, last} = this.shown;
		if (force || this.indexAt(y - OVERSCAN / 2) < first || this.indexAt(y + innerHeight + OVERSCAN / 2) > last) {
			const anchor = this.anchor();
			this.patchAt(y);
			this.hold(anchor);
		}
		this.want(this.scrollOffset(), innerHeight);
	}

	// Draws the rows of a viewport whose top is at y.
	patchAt(y) {
		this.patch(this.indexAt(y - OVERSCAN), this.indexAt(y + innerHeight + OVERSCAN));
	}

	patch(first, last) {
		const wanted = new Set(this.rows.slice(first, last + 1));
		for (let node = this.before.nextSibling; node !== this.after;) {
			const next = node.nextSibling;
			if (!wanted.has(node.row)) this.drop(node.row);
			node = next;
		}
		let place = this.before.nextSibling;
		for (const row of wanted) {
			const again = row.node && row.dirty;
			if (again) {
				if (place === row.node) place = place.nextSibling;
				holdFocus(row.node, () => {
					this.drop(row);
					this.build(row);
					return this.root.insertBefore(row.node, place);
				});
			} else if (!row.node) {
				this.build(row);
			}
			if (row.gap) row.node.style.height = this.heightOf(row) + "px";
			if (row.node === place) place = place.nextSibling;
			else if (!again) this.root.insertBefore(row.node, place);
		}
		this.shown = {first, last};
		this.pad();
		let changed = false;
		for (const row of wanted) {
			if (row.gap || !row.fresh) continue;
			row.fresh = false;
			changed = this.measure(row) || changed;
			this.sizes.observe(row.node);
		}
		if (changed) {
			this.layout();
			this.pad();
		}
	}

	// Returns whether the height has changed.
	measure(row) {
		const height = row.node.getBoundingClientRect().height;
		if (Math.abs(height - row.height) <= 0.25) return false;
		row.height = height;
		return true;
	}

	build(row) {
		row.node = row.gap ? el(".gap", {"aria-hidden": "true"}) : this.render(row.item, row);
		row.node.row = row;
		row.fresh = true;
		row.dirty = false;
	}

	drop(row) {
		if (!row.node) return;
		this.sizes.unobserve(row.node);
		row.node.remove();
		row.node = null;
	}

	pad() {
		this.before.style.height = this.offsets[this.shown.first] + "px";
		const end = this.offsets[Math.min(this.shown.last + 1, this.rows.length)];
		this.after.style.height = Math.max(0, this.total - end) + "px";
	}

	resized(entries) {
		const anchor = this.following ? null : this.anchor();
		let changed = false;
		for (const entry of entries) {
			const row = entry.target.row;
			if (row?.node === entry.target) changed = this.measure(row) || changed;
		}
		if (!changed) return;
		this.layout();
		this.hold(anchor);
		this.scrolled();
	}

	// Loads what the viewport needs, one page at a time.
	want(y, view) {
		if (this.loading || this.failed) return;
		for (let i = this.shown.first; i <= this.shown.last; i++) {
			const row = this.rows[i];
			if (!row?.gap) continue;
			const top = this.offsets[i];
			const bottom = top + this.heightOf(row);
			if (bottom < y - OVERSCAN || top > y + view + OVERSCAN) continue;
			if (top >= y) this.page({after: row.from - 1});
			else if (bottom <= y + view) this.page({before: row.to + 1});
			else this.page({around: Math.floor(row.from + (y + view / 2 - top) / this.perSeq)});
			return;
		}
	}

	async page(query) {
		if (this.loading) return;
		this.loading = true;
		try {
			const page = await this.load({limit: 120, ...query});
			if (!this.dead) this.insert(page);
		} catch (error) {
			if (this.dead) return;
			this.failed = error;
			this.onPage(error);
		} finally {
			this.loading = false;
			if (!this.dead) this.scrolled();
		}
	}

	// The same after the page that is being loaded.
	async pageSoon(query) {
		while (this.loading) await new Promise(done => setTimeout(done, 30));
		await this.page(query);
	}

	// Replaces whatever was known of from..=to by the items.
	insert({items, from, to, total}) {
		const anchor = this.anchor();
		const added = items.map(item => this.rowOf(item));
		const kept = new Set(added);
		const rows = [];
		const add = (low, high) => {
			if (high >= low) rows.push({gap: true, from: low, to: high});
		};
		// Without rows, everything outside of the page is a gap.
		for (const row of this.rows.length > 0 ? this.rows : [{gap: true, from: 1, to: total}]) {
			if (row.gap) {
				add(row.from, Math.min(row.to, from - 1));
				add(Math.max(row.from, to + 1), row.to);
				this.drop(row);
			} else if (row.seq < from || row.seq > to) {
				if (!kept.has(row)) rows.push(row);
			} else if (!kept.has(row)) {
				this.drop(row);
				this.byKey.delete(row.key);
			}
		}
		for (const row of added) this.byKey.set(row.key, row);
		rows.push(...added);
		rows.sort((a, b) => startOf(a) - startOf(b));
		this.rows = rows;
		if (rows.length > MAX_ROWS) this.forget(anchor?.seq ?? from, total);
		this.scale();
		this.onPage(null);
		this.redrawFrom(anchor);
	}

	// Turns the rows far from a number into gaps.
	forget(seq, total) {
		const {rows} = this;
		// Rows that begin with the same event stay together.
		const edge = index => {
			while (index > 0 && index < rows.length && startOf(rows[index]) === startOf(rows[index - 1])) index--;
			return index;
		};
		const at = this.indexOf(seq);
		const low = edge(Math.max(0, at - MAX_ROWS / 3));
		const high = edge(Math.min(rows.length, at + MAX_ROWS / 3));
		const gap = (from, to) => (to >= from ? [{gap: true, from, to}] : []);
		for (const row of [...rows.slice(0, low), ...rows.slice(high)]) {
			this.drop(row);
			this.byKey.delete(row.key);
		}
		this.rows = [...gap(startOf(rows[0]), low && startOf(rows[low]) - 1), ...rows.slice(low, high),
			...(high < rows.length ? gap(startOf(rows[high]), Math.max(total, rows.at(-1).to ?? rows.at(-1).seq)) : [])];
	}

	// The known row of an item, marked if it changed, or a new one.
	rowOf(item) {
		const key = this.keyOf(item);
		const row = this.byKey.get(key) ?? {key, seq: item.seq, item, height: 0, guess: this.estimate(item), node: null};
		if (row.item !== item) {
			row.item = item;
			row.dirty = true;
		}
		return row;
	}

	// With the anchor taken before the rows changed.
	redrawFrom(anchor) {
		if (!this.root.isConnected || this.rows.length === 0) return;
		this.layout();
		this.patchAt(anchor ? this.offsets[this.indexOf(anchor.seq)] - anchor.delta : this.scrollOffset());
		this.hold(anchor);
		this.scrolled();
	}

	// Adds an item at the end, or marks its row. Call `redrawFrom` afterwards.
	put(item) {
		const row = this.rowOf(item);
		if (this.byKey.has(row.key)) return;
		this.byKey.set(row.key, row);
		this.rows.push(row);
	}

	// Redraws one row, for example after a fold.
	redraw(row) {
		row.dirty = true;
		this.update(true);
	}

	// Scrolls to a number and returns its row.
	async jump(seq, focus = true) {
		this.following = false;
		let index = this.indexOf(seq);
		if (this.rows.length === 0 || this.rows[index].gap) {
			await this.pageSoon({around: seq});
			index = this.indexOf(seq);
		}
		// A result is part of its call.
		let row = this.rows.find(one => one.item?.type === "tool" && one.item.last_seq === seq) ?? this.rows[index];
		if (row?.gap) row = this.rows[index + 1] ?? this.rows[index - 1];
		if (!row || row.gap) return null;
		this.show(row);
		if (focus) row.node?.focus({preventScroll: true});
		return row;
	}

	show(row) {
		this.patchAt(this.offsets[this.rows.indexOf(row)]);
		this.hold({row, seq: row.seq, delta: this.inset() + 16});
		this.scrolled();
	}

	async end() {
		if (!this.atTail()) {
			await this.pageSoon({before: this.rows.at(-1).to + 1});
		}
		this.patchAt(this.total - innerHeight);
		this.following = true;
		this.toEnd();
		this.onFollow(true);
		this.scrolled();
	}

	// The first row that is fully visible.
	topRow() {
		const edge = this.scrollOffset() + this.inset();
		const index = this.indexAt(Math.max(0, edge + 1));
		return this.rows[this.offsets[index] < edge && index + 1 < this.rows.length ? index + 1 : index];
	}

	step(row, by) {
		const index = this.rows.indexOf(row);
		if (index < 0) return this.topRow();
		const next = this.rows[index + by];
		return next && !next.gap ? next : row;
	}
}
