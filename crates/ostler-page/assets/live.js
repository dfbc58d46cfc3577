// One event stream for all tabs. The tab with the lock relays every event; when it goes, the next
// one continues after the last event it saw.

const CHANNEL = "ostler-live";
// The daemon sends something at least every 15 seconds.
const SILENCE = 40000;

export class LiveFeed {
	constructor() {
		this.listeners = new Set();
		this.stateListeners = new Set();
		this.state = "connecting";
		this.position = null;
		this.outbox = [];
		this.retry = 500;
		this.channel = new BroadcastChannel(CHANNEL);
		this.channel.onmessage = message => this.hear(message.data);
		// Runs after the events of the same chunk, and is not slowed in hidden tabs.
		this.tick = new MessageChannel();
		this.tick.port1.onmessage = () => this.flush();
	}

	start() {
		this.alive();
		this.channel.postMessage({kind: "hello"});
		navigator.locks.request(CHANNEL, () => new Promise(release => {
			this.release = release;
			this.lead();
		}));
		addEventListener("pagehide", () => this.stop());
		addEventListener("pageshow", event => {
			if (event.persisted) location.reload();
		});
	}

	// Something came from the daemon, or from the tab with the connection.
	alive() {
		clearTimeout(this.watchdog);
		this.watchdog = setTimeout(() => this.lost(this.source), SILENCE);
	}

	lost(source) {
		this.setState("behind");
		if (source) this.again(source);
	}

	stop() {
		clearTimeout(this.watchdog);
		this.source?.close();
		this.source = null;
		this.leading = false;
		this.release?.();
	}

	lead() {
		this.leading = true;
		this.connect();
	}

	tell(message) {
		this.channel.postMessage({...message, position: this.position});
	}

	connect() {
		this.setState(this.position === null ? "connecting" : "behind");
		const since = this.position === null ? "" : "?since=" + this.position;
		const source = new EventSource("/v1/events" + since);
		this.source = source;
		this.alive();
		source.onmessage = message => {
			this.alive();
			this.position = message.lastEventId;
			this.outbox.push(JSON.parse(message.data));
			if (this.outbox.length === 1) this.tick.port2.postMessage(0);
		};
		source.addEventListener("caught_up", message => {
			this.retry = 500;
			const {position} = JSON.parse(message.data);
			if (position !== undefined) this.position = String(position);
			this.setState("live");
		});
		source.addEventListener("heartbeat", () => {
			this.alive();
			this.setState("live");
		});
		source.addEventListener("problem", () => this.lost(source));
		// The browser's own retry would start anew if no event has come yet.
		source.onerror = () => this.lost(source);
	}

	again(source) {
		source.close();
		if (source !== this.source) return;
		this.source = null;
		dispatchEvent(new Event("ostler-check"));
		setTimeout(() => {
			if (this.leading && !this.source) this.connect();
		}, this.retry);
		this.retry = Math.min(this.retry * 2, 15000);
	}

	flush() {
		const events = this.outbox;
		this.outbox = [];
		if (events.length === 0) return;
		this.tell({kind: "events", events});
		this.emit(events);
	}

	hear(data) {
		this.alive();
		if (data.kind === "hello" && this.leading) {
			this.tell({kind: "state", state: this.state});
		} else if (data.kind === "events" && !this.leading) {
			this.position = data.position;
			this.emit(data.events);
		} else if (data.kind === "state" && !this.leading) {
			if (data.position !== null) this.position = data.position;
			this.setState(data.state);
		}
	}

	setState(state) {
		const changed = state !== this.state;
		this.state = state;
		if (this.leading) this.tell({kind: "state", state});
		if (changed) for (const listener of this.stateListeners) listener(state);
	}

	emit(events) {
		for (const listener of [...this.listeners]) listener(events);
	}

	on(listener) {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}

	onState(listener) {
		this.stateListeners.add(listener);
		listener(this.state);
		return () => this.stateListeners.delete(listener);
	}
}
