// Harness of the browser tests: a daemon of its own, agents without a model, and Chromium.
//
// A test is a file in this directory that uses `node:test`; `cargo xtask test --step page` runs
// all of them. To run one by hand, once that step has installed what they need:
//
//   node --test crates/ostler-page/tests/browser/auth.mjs
//
// A test that logs in, opens a session and checks it for accessibility:
//
//   import assert from 'node:assert/strict';
//   import { test } from 'node:test';
//   import * as h from './harness.mjs';
//
//   test('a reply is shown', async (t) => {
//     const daemon = await h.startDaemon(t);               // stops with the test
//     const session = await h.playedSession(daemon, [
//       h.thought('Let me look.'),
//       ...h.toolCall('Bash', { command: 'ls' }, { output: 'README.md' }),
//       ...h.editCall('src/a.rs', 'old', 'new'),
//       h.text('Done.'),
//     ]);
//     const page = await h.newPage(t, { theme: 'dark', width: 390 });
//     await h.login(page, daemon, { session: session.id, approve: true });
//     await page.getByText('Done.').waitFor();
//     await h.axe(page);
//     await h.screenshot(page, 'session-dark');
//     assert.deepEqual(page.problems, []);                 // console errors, CSP violations
//   });
//
// | function | what it does |
// |---|---|
// | startDaemon(t, {args}) | `ostler serve` with its own directories: `daemon.api`, `.dir`, `.work`, `.stop()` |
// | daemon.halt(), daemon.launch() | stop the daemon, and start it again with the same store |
// | daemon.shell(command) | runs a command line as the user of that daemon, and returns its output |
// | daemon.api.get/post/delete | calls the API on the socket, as the user; throws unless it succeeds |
// | daemon.link() | a one-time link |
// | newPage(t, {theme, width, height, zoom}) | a page in a fresh browser profile, which records `page.problems` |
// | startProxy(t) | a connection that can be cut, for `newPage` |
// | login(page, daemon, {session, approve}) | opens the page, logged in; `approve` enters the approval code |
// | call(page, method, path, body) | calls the API from within the page, as the page does: `{status, body}` |
// | playedSession(daemon, events, {…}) | a session whose turn plays these events (agent `mock`) |
// | askingSession(daemon, calls, {…}) | a session that really asks before each of these tool calls |
// | scriptedSession(daemon, toml, {…}) | a session of the scripted agent |
// | longEvents(count) | events for a long session |
// | fakeClaude(daemon, script), newSession(daemon, {…}) | any session: see `ostler-testkit`'s fake agent |
// | settled(daemon, id), pending(daemon, count) | wait for the end of a turn, and for permission requests |
// | visit(page, path) | opens a view, such as `/approvals` |
// | goTo(page, key, path) | the same with the keys `g` and `key` |
// | live(page) | waits until events arrive as they happen |
// | axe(page), fits(page), screenshot(page, name) | accessibility, no sideways scrolling, and a picture in `target/page-screenshots` |
//
// With OSTLER_PAGE_ASSETS=crates/ostler-page/assets, scripts and styles are read from there, so that
// a change of the page needs no build. OSTLER_PAGE_PATIENCE=5000 lets a broken test fail soon.
//
// Nothing outside of this machine is contacted, and nothing sleeps: wait for a condition, with
// Playwright's locators or `until`. All waits end after PATIENCE without progress.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';

/** How long anything may take on a loaded machine, in milliseconds. */
export const PATIENCE = Number(process.env.OSTLER_PAGE_PATIENCE ?? 60_000);

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, '../../../..');
const target = process.env.CARGO_TARGET_DIR ?? path.join(root, 'target');
const programs = process.env.OSTLER_PROGRAMS ?? path.join(target, 'debug');

/** Returns the directory that `cargo xtask test --step page` installed the packages into. */
function modules() {
  if (process.env.OSTLER_PAGE_MODULES) return process.env.OSTLER_PAGE_MODULES;
  const found = existsSync(target) ? readdirSync(target).filter((name) => name.startsWith('page-tests-')) : [];
  const complete = found.map((name) => path.join(target, name)).find((dir) => existsSync(path.join(dir, 'installed')));
  if (!complete) throw new Error('the packages are not installed; run: cargo xtask test --step page');
  return complete;
}

const require = createRequire(path.join(modules(), 'package.json'));
const { chromium } = require('playwright-core');

/** Waits until `condition` returns something, and returns that. */
export async function until(condition, what = 'the condition') {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not hold in time`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Daemon

/** Sends a request over a Unix socket. */
function overSocket(socketPath, method, url, body) {
  return new Promise((resolve, reject) => {
    const headers = { Host: 'localhost', 'Content-Type': 'application/json' };
    const request = http.request({ socketPath, method, path: url, headers }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = /json/.test(response.headers['content-type'] ?? '');
        resolve({ status: response.statusCode, body: isJson && text ? JSON.parse(text) : text });
      });
    });
    request.on('error', reject);
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/**
 * Starts `ostler serve` in directories of its own. It stops with the test `t`.
 *
 * `args` are further arguments, such as `['--listen', '127.0.0.1:0']`.
 */
export async function startDaemon(t, { args = [] } = {}) {
  const dir = mkdtempSync(path.join(tmpdir(), 'ostler-page-'));
  const [work, bin] = ['work', 'bin'].map((name) => path.join(dir, name));
  [work, bin].forEach((each) => mkdirSync(each));
  const env = {
    HOME: dir,
    OSTLER_STATE_DIR: path.join(dir, 'state'),
    OSTLER_CONFIG_DIR: path.join(dir, 'config'),
    XDG_RUNTIME_DIR: dir,
    PATH: `${bin}:/usr/bin:/bin`,
  };
  const daemon = { dir, work, bin, env };
  let child;
  let ended;
  const launch = async () => {
    Object.assign(daemon, { stdout: '', stderr: '' });
    child = spawn(path.join(programs, 'ostler'), ['serve', '--drain', '1ms', ...args], {
      cwd: work,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    daemon.pid = child.pid;
    child.stdout.on('data', (data) => (daemon.stdout += data));
    child.stderr.on('data', (data) => (daemon.stderr += data));
    ended = once(child, 'exit');
    const line = () => daemon.stdout.includes('\n') || child.exitCode !== null;
    await until(line, 'the start of the daemon');
    assert.equal(child.exitCode, null, daemon.stderr);
    daemon.socket = daemon.stdout.split('\n')[0];
  };
  daemon.halt = async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
    await ended;
  };
  daemon.launch = launch;
  daemon.stop = async () => {
    await daemon.halt();
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  };
  t.after(daemon.stop);
  await launch();
  const call = async (method, url, body) => {
    const response = await overSocket(daemon.socket, method, url, body);
    if (response.status >= 400) {
      throw new Error(`${method} ${url}: ${response.status} ${JSON.stringify(response.body)}`);
    }
    return response.body;
  };
  daemon.api = {
    get: (url) => call('GET', url),
    post: (url, body = {}) => call('POST', url, body),
    delete: (url) => call('DELETE', url),
    raw: (method, url, body) => overSocket(daemon.socket, method, url, body),
  };
  daemon.link = async () => (await daemon.api.post('/v1/browser-links')).url;
  daemon.approvalCode = async () => (await daemon.api.get('/v1/approval-code')).code;
  daemon.shell = (command) => shell(daemon, command);
  return daemon;
}

/**
 * Returns a port of 127.0.0.1 that nothing listens on. It is below the range from which the kernel
 * takes the ports of outgoing connections, so that none takes it while a daemon restarts.
 */
export async function freePort() {
  for (let port = 12_000 + ((process.pid * 32) % 20_000); ; port = port < 31_999 ? port + 1 : 12_000) {
    const server = http.createServer();
    const free = await new Promise((done) => {
      server.once('error', () => done(false));
      server.listen(port, '127.0.0.1', () => server.close(() => done(true)));
    });
    if (free) return port;
  }
}

/** Runs a command line in a shell, with `ostler` on its PATH, as a user of this daemon. */
async function shell(daemon, command) {
  const child = spawn('bash', ['-c', command], {
    cwd: daemon.work,
    env: { ...daemon.env, PATH: `${programs}:${daemon.env.PATH}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks = [[], []];
  [child.stdout, child.stderr].forEach((stream, n) => stream.on('data', (data) => chunks[n].push(data)));
  const [code] = await once(child, 'close');
  const [stdout, stderr] = chunks.map((each) => Buffer.concat(each).toString());
  assert.equal(code, 0, `${command}: ${stderr}`);
  return stdout;
}

// Sessions

/** Creates a session. Fields are those of `POST /v1/sessions`; `dir` is the daemon's `work`. */
export function newSession(daemon, fields) {
  return daemon.api.post('/v1/sessions', { dir: daemon.work, ...fields });
}

let files = 0;

function write(daemon, text, extension) {
  files += 1;
  const file = path.join(daemon.dir, `script-${files}.${extension}`);
  writeFileSync(file, text);
  return file;
}

/** A reply. With `delta`, it is a part of the message `message`. */
export function text(text, { delta = false, message = null, parent = null } = {}) {
  return { type: 'text', kind: 'reply', text, delta, message, parent };
}

/** A thought. */
export function thought(text, { delta = false, message = null } = {}) {
  return { type: 'text', kind: 'thinking', text, delta, message, parent: null };
}

let calls = 0;

/** A tool call and its result: two events. */
export function toolCall(name, input, { output = '', ok = true, denied = false, parent = null } = {}) {
  calls += 1;
  const id = `call-${calls}`;
  return [
    { type: 'tool_call', id, name, input, parent },
    { type: 'tool_result', id, name, ok, output, denied, parent },
  ];
}

/** An edit of a file and its result: two events. */
export function editCall(file, before, after, options = {}) {
  const input = { file_path: file, old_string: before, new_string: after };
  return toolCall('Edit', input, { output: 'The file has been updated.', ...options });
}

/** Waits this long between two events. */
export function wait(ms) {
  return { wait_ms: ms };
}

/** Ends a turn. Without it, `playedSession` adds one that succeeds. */
export function turnEnded({ cause = 'completed', status = 'success', message = 'Done.', reply = '', usage = null } = {}) {
  const scoped = usage && { scope: 'turn', model: null, ...usage };
  return { type: 'turn_ended', outcome: { status, cause, message }, text: reply, structured: null, usage: scoped };
}

/** Events of a long session: replies in parts, thoughts, tool calls and edits in turn. */
export function longEvents(count) {
  const events = [];
  for (let n = 0; events.length < count; n += 1) {
    const message = `m${n}`;
    events.push(thought(`Step ${n}: what is next?`));
    events.push(text(`Step ${n}. `, { delta: true, message }));
    events.push(text('It **works**.', { delta: true, message }));
    events.push(text(`Step ${n}. It **works**.`, { message }));
    events.push(...toolCall('Bash', { command: `make step-${n}` }, { output: `step ${n}\n`.repeat(3) }));
    events.push(...editCall(`src/step${n % 50}.rs`, `old ${n}`, `new ${n}`));
  }
  return events.slice(0, count);
}

/**
 * Creates a session whose first turn plays events: those of docs/events.md without their
 * envelope, `wait(ms)`, or `{hang: true}`. Waits for the end of the turn, unless `settle` is false.
 */
export async function playedSession(daemon, events, { settle = true, prompt = 'go', ...fields } = {}) {
  const isOpen = events.some((event) => event.type === 'turn_ended' || event.hang);
  const all = isOpen ? events : [...events, turnEnded()];
  const script = write(daemon, all.map((event) => `${JSON.stringify(event)}\n`).join(''), 'jsonl');
  const session = await newSession(daemon, { agent: 'mock', permissions: 'all', settings: { script }, prompt, ...fields });
  return settle ? settled(daemon, session.id) : session;
}

/**
 * Creates a session that asks before each tool call, one after the other: `calls` are
 * `{tool, input}` with Ostler's own tools, such as
 * `{tool: 'write_file', input: {path: 'a.txt', content: 'x'}}`. What is allowed really happens in
 * `daemon.work`. It does not wait: see `pending`.
 */
export function askingSession(daemon, toolCalls, { prompt = 'go', ...fields } = {}) {
  // JSON strings are TOML strings.
  const value = (it) =>
    Array.isArray(it)
      ? `[${it.map(value).join(', ')}]`
      : it !== null && typeof it === 'object'
        ? `{ ${Object.entries(it).map(([key, each]) => `${JSON.stringify(key)} = ${value(each)}`).join(', ')} }`
        : JSON.stringify(it);
  const replies = toolCalls.map((call) => `[[reply]]\ncalls = [${value(call)}]\n`);
  const script = `${replies.join('\n')}\n[[reply]]\ntext = "All done."\n`;
  return scriptedSession(daemon, script, { permissions: 'ask', prompt, ...fields });
}

/** Creates a session of the scripted agent: see docs/agents/scripted.md. */
export function scriptedSession(daemon, toml, fields) {
  const settings = { script: write(daemon, toml, 'toml') };
  return newSession(daemon, { agent: 'scripted', settings, ...fields });
}

/** Makes the fake agent play a script as `claude`: see `crates/ostler-testkit/src/bin/fake-agent`. */
export function fakeClaude(daemon, script) {
  const program = path.join(daemon.bin, 'claude');
  writeFileSync(program, `#!/bin/bash\nexec -a "$0" ${path.join(programs, 'fake-agent')} "$@"\n`);
  chmodSync(program, 0o755);
  writeFileSync(`${program}.script`, script);
}

/** Waits until the last turn of a session has ended, however long it is, and returns the session. */
export async function settled(daemon, id) {
  for (let seen = -1; ; ) {
    const { done, session } = await until(async () => {
      const result = await daemon.api.get(`/v1/sessions/${id}/result?wait=10s`);
      return (result.done || result.session.last_seq > seen) && result;
    }, `the end of the turn of ${id}, or another event,`);
    if (done) return session;
    seen = session.last_seq;
  }
}

/** Waits until this many permission requests are pending, and returns them. */
export function pending(daemon, count = 1) {
  return until(async () => {
    const { approvals } = await daemon.api.get('/v1/approvals?state=pending');
    return approvals.length === count && approvals;
  }, `${count} permission requests`);
}

// Browser

/** Flags of Chromium: headless, and without any connection of its own. */
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
];

let browser;

/** Returns the browser of this file. It is closed after its last test. */
async function launched() {
  browser ??= chromium.launch({
    executablePath: process.env.OSTLER_CHROMIUM ?? '/usr/bin/chromium',
    chromiumSandbox: false,
    args: FLAGS,
    timeout: PATIENCE,
  });
  return browser;
}

after(async () => (await browser)?.close());

/**
 * Opens a page in a fresh profile. `theme` is `light` or `dark`; a `zoom` of 2 leaves half of the
 * width. `page.problems` lists errors on the console, exceptions, CSP violations, dialogs, and
 * requests that left this machine.
 */
export async function newPage(t, options = {}) {
  const { theme = 'light', width = 1280, height = 800, zoom = 1, motion = 'reduce', proxy } = options;
  const context = await (await launched()).newContext({
    colorScheme: theme,
    reducedMotion: motion,
    viewport: { width: Math.round(width / zoom), height: Math.round(height / zoom) },
    deviceScaleFactor: zoom,
    permissions: ['clipboard-read', 'clipboard-write'],
    acceptDownloads: true,
    proxy: proxy && { server: proxy.url },
  });
  context.setDefaultTimeout(PATIENCE);
  if (process.env.OSTLER_PAGE_ASSETS && !proxy) await context.route('**/assets/**', fromSource);
  t.after(() => context.close());
  return watched(await context.newPage());
}

/**
 * A connection that can be cut, for `newPage(t, {proxy})`: `proxy.cut()` and `proxy.restore()`.
 * `proxy.stall()` keeps it open, but no event passes. `proxy.streams` are the requests for events.
 */
export async function startProxy(t) {
  const sockets = new Set();
  const proxy = { streams: [] };
  let isCut = false;
  const flowing = new Set();
  const server = http.createServer((request, response) => {
    const { host, pathname, search } = new URL(request.url);
    const [hostname, port] = host.split(':');
    const options = { hostname, port, path: pathname + search, method: request.method, headers: request.headers };
    if (pathname === '/v1/events') proxy.streams.push({ search, headers: request.headers });
    const onward = http.request(options, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      if (pathname === '/v1/events') flowing.add(() => answer.unpipe(response));
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  server.on('connection', (socket) => {
    if (isCut) return socket.destroy();
    sockets.add(socket);
    return socket.on('close', () => sockets.delete(socket));
  });
  proxy.cut = () => {
    isCut = true;
    sockets.forEach((socket) => socket.destroy());
  };
  proxy.restore = () => (isCut = false);
  proxy.stall = () => flowing.forEach((stop) => stop());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  t.after(() => {
    proxy.cut();
    server.close();
  });
  return proxy;
}

/** Answers with a file of the source directory, and the headers of the daemon. */
async function fromSource(route) {
  const response = await route.fetch();
  const name = path.basename(new URL(route.request().url()).pathname);
  const body = readFileSync(path.resolve(process.env.OSTLER_PAGE_ASSETS, name));
  await route.fulfill({ response, body });
}

/** Opens a second tab beside a page. */
export async function newTab(page) {
  return watched(await page.context().newPage());
}

function watched(page) {
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(`exception: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') page.problems.push(`console: ${message.text()}`);
  });
  page.on('dialog', (dialog) => {
    page.problems.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
  page.on('request', (request) => {
    const { protocol, hostname } = new URL(request.url());
    const isOwn = ['data:', 'blob:', 'about:', 'file:'].includes(protocol) || hostname === '127.0.0.1';
    if (!isOwn) page.problems.push(`request: ${request.url()}`);
  });
  return page;
}

/**
 * Opens the page, logged in. With `session`, at that session; with `approve`, the approval code is
 * entered too. Returns the address of the page, without its fragment.
 */
export async function login(page, daemon, { session, approve = false } = {}) {
  const link = await daemon.link();
  await page.goto(session ? `${link}&next=/s/${session}` : link);
  await until(async () => (await browserSession(page)).can_prompt, 'the login');
  await page.waitForFunction(() => !location.hash.includes('login='));
  if (approve) {
    const code = await daemon.approvalCode();
    const { status } = await call(page, 'POST', '/v1/browser-session/approve', { code });
    assert.equal(status, 204);
  }
  return new URL(link).origin;
}

/** Opens a view of the page: `/`, `/approvals`, `/s/ID/changes`, … */
export async function visit(page, view) {
  await page.evaluate((view) => (location.hash = view), view);
}

/** Opens a view with `g` and another key, which must follow within two seconds: a busy machine may need several attempts. */
export async function goTo(page, key, view) {
  await until(async () => {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    return page.evaluate((view) => location.hash.split('?')[0] === `#${view}`, view);
  }, `the view ${view}`);
}

/** Waits until the page has its event stream. What happens before is in its first answers, but not announced. */
export async function live(page) {
  await page.locator('#live.live.live').getByText('Live').waitFor({ state: 'attached' });
}

/** Calls the API from within the page, with the page's cookie and key. */
export function call(page, method, url, body) {
  return page.evaluate(
    async ([method, url, body]) => {
      const headers = { 'Ostler-Page-Key': localStorage.getItem('ostler.key') ?? '' };
      if (body !== undefined) headers['Content-Type'] = 'application/json';
      const response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
      const text = await response.text();
      const isJson = /json/.test(response.headers.get('content-type') ?? '');
      return { status: response.status, body: isJson && text ? JSON.parse(text) : text };
    },
    [method, url, body],
  );
}

/** Returns what the page may do: `{authenticated, can_prompt, can_approve, version}`. */
export async function browserSession(page) {
  return (await call(page, 'GET', '/v1/browser-session')).body;
}

/** Fails if axe finds a violation, with a list of what and where. `exclude` are CSS selectors. */
export async function axe(page, { exclude = [] } = {}) {
  const source = require('axe-core').source;
  // In an isolated world, where neither the page's policy nor Trusted Types apply.
  const client = await page.context().newCDPSession(page);
  const { frameTree } = await client.send('Page.getFrameTree');
  const world = await client.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
  const evaluate = async (expression) => {
    const done = await client.send('Runtime.evaluate', {
      expression,
      contextId: world.executionContextId,
      awaitPromise: true,
      returnByValue: true,
    });
    assert.equal(done.exceptionDetails, undefined, JSON.stringify(done.exceptionDetails));
    return done.result.value;
  };
  await evaluate(`${source}; undefined`);
  const violations = await evaluate(
    `axe.run({ exclude: ${JSON.stringify(exclude.map((it) => [it]))} }).then(({ violations }) => violations)`,
  );
  await client.detach();
  const found = violations.flatMap((violation) =>
    violation.nodes.map((node) => `${violation.id}: ${node.target.join(' ')}\n  ${node.failureSummary}`),
  );
  assert.deepEqual(found, [], `accessibility:\n${found.join('\n')}`);
}

/** Fails if the page can be scrolled sideways. */
export async function fits(page) {
  const wide = await page.evaluate(() => {
    const room = document.documentElement.clientWidth;
    const past = (node) => node.getBoundingClientRect().right > room + 1;
    const who = [...document.querySelectorAll('body *')].filter(past).slice(0, 5);
    return { over: document.documentElement.scrollWidth - room, who: who.map((node) => node.outerHTML.slice(0, 120)) };
  });
  assert.ok(wide.over <= 0, `${wide.over} px too wide at ${page.url()}:\n${wide.who.join('\n')}`);
}

/** Saves a picture of the page in `target/page-screenshots`, and returns its path. */
export async function screenshot(page, name, options = {}) {
  const dir = path.join(target, 'page-screenshots');
  mkdirSync(dir, { recursive: true });
  const file = path.join(dir, `${name}.png`);
  await page.screenshot({ path: file, ...options });
  return file;
}
