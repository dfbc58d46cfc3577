// The daemon's API. In an exported file the same calls are answered from the file.
import {el, safeText} from "./dom.js";

class ApiProblem extends Error {
	constructor(status, body) {
		super(body?.detail || body?.title || "The daemon answered with status " + status);
		this.status = status;
		this.cause = body?.cause ?? "";
		this.hint = body?.hint ?? "";
	}
}

// The page's key, from the login. Changes need it: the cookie alone is not enough.
const KEY_NAME = "ostler.key";

export async function logIn(code) {
	const {key} = await post("/v1/browser-session", {code}, {quiet: true});
	localStorage.setItem(KEY_NAME, key);
}

// Whether an event of the storage is a login in another tab.
export function isKey(event) {
	return event.key === KEY_NAME && event.newValue !== null;
}

export async function request(method, path, body, extra = {}) {
	const headers = {Accept: "application/json", ...extra.headers};
	const key = localStorage.getItem(KEY_NAME);
	if (key) headers["Ostler-Page-Key"] = key;
	if (body !== undefined) headers["Content-Type"] = "application/json";
	const response = await fetch(path, {
		method, headers, credentials: "same-origin", redirect: "error", body: JSON.stringify(body), signal: extra.signal,
	}).catch(() => {
		throw new ApiProblem(0, {
			detail: "The daemon does not answer",
			hint: "Check that it runs: `ostler serve --detach`, then `ostler open`.",
		});
	});
	if (response.status === 401 && !extra.quiet) dispatchEvent(new Event("ostler-login"));
	if (!response.ok) {
		// If it is not JSON, the status has to do.
		throw new ApiProblem(response.status, await response.json().catch(() => null));
	}
	if (extra.text) return response.text();
	return response.status === 204 ? null : response.json();
}

export function get(path, query, extra) {
	const pairs = new URLSearchParams();
	for (const [key, value] of Object.entries(query ?? {})) {
		if (value != null && value !== "") pairs.append(key, value);
	}
	const text = pairs.toString();
	return request("GET", text ? path + "?" + text : path, undefined, extra);
}

export function post(path, body, extra) {
	return request("POST", path, body ?? {}, extra);
}

export function sessionPath(id, part) {
	return "/v1/sessions/" + encodeURIComponent(id) + (part ? "/" + part : "");
}

export function linkTo(id, part) {
	return "#/s/" + encodeURIComponent(id) + (part ? "/" + part : "");
}

export function approvalPath(id) {
	return "/v1/approvals/" + encodeURIComponent(id);
}

// What a session's view reads, from the daemon, until the signal.
export function daemonSource(signal) {
	const part = name => (id, query) => get(sessionPath(id, name), query, {signal});
	return {
		readOnly: false, session: part(""), transcript: part("transcript"), changes: part("changes"),
		timeline: part("timeline"), history: part("history"),
	};
}

// The same from an exported file, without any request.
export function exportSource(data) {
	const answer = value => () => Promise.resolve(value);
	return {
		readOnly: true, session: answer(data.session), transcript: answer(data.transcript),
		changes: answer(data.changes ?? {files: []}), timeline: answer(data.timeline), history: answer({events: []}),
	};
}

// A message about a failed request, with what to do.
export function problemBox(error, retry) {
	return el(".problem", {role: "alert"},
		el("p", el("strong", safeText(error.message))),
		error.hint && el("p", safeText(error.hint)),
		retry && el("button", {onclick: retry}, "Try again"));
}
