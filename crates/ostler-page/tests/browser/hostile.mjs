// Hostile text: every payload of the corpus, through every field that an agent controls. None runs,
// none asks for anything, none leaves the page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import * as h from './harness.mjs';

/** The payloads of `tests/it/xss.txt`, as `tests/it/hostile.rs` reads them. */
function payloads() {
  const lines = readFileSync(new URL('../it/xss.txt', import.meta.url), 'utf8').split('\n');
  const wanted = lines.filter((line) => line !== '' && (!line.startsWith('# ') || line.startsWith('# <')));
  return wanted.map((line) =>
    line.replace(/\\u\{([0-9A-Fa-f]+)\}|\\n|\\\\/g, (all, code) =>
      code ? String.fromCodePoint(parseInt(code, 16)) : all === '\\n' ? '\n' : '\\'));
}

const PAYLOADS = payloads();

/** A text as the page shows it, with hidden characters as escapes. The rule is written out again here. */
const visible = (text) => text.replace(/[^\P{C}\n\t]|[\u2028\u2029\u115f\u1160\u2800\u3164\uffa0]/gu, (c) => `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`);

/** Every payload in every event that the mock agent can play. */
const events = () => PAYLOADS.flatMap((payload, n) => {
  const id = `hostile-${n} ${payload}`;
  return [
    h.thought(payload),
    h.text(payload.slice(0, 10), { delta: true, message: `m${n}` }),
    h.text(payload.slice(10), { delta: true, message: `m${n}` }),
    { type: 'tool_call', id, name: payload, input: { [payload]: payload, command: payload, file_path: payload }, parent: null },
    { type: 'tool_result', id, name: payload, ok: n % 2 === 0, output: payload, denied: false, parent: null },
    ...h.editCall(payload, payload, `${payload} ${n}`),
    ...h.toolCall(`mcp__${payload}__${payload}`, { query: payload }, { output: payload }),
    { type: 'notice', level: 'warning', code: payload, message: payload },
    { type: 'unreadable', raw: payload, why: payload, length: payload.length, lossy: false },
    h.text(payload),
  ];
});

/** What the agent says about itself and its turn. */
const started = (payload) => ({ type: 'started', agent: 'mock', agent_version: payload, native_session: payload, model: payload, cwd: payload, tools: [payload] });
const failed = (payload) => {
  const ended = h.turnEnded({ status: 'failed', cause: 'bad_request', message: payload, reply: payload, usage: { model: payload, input: 5, output: 5, cost_source: 'unknown' } });
  Object.assign(ended.outcome, { hint: payload, detail: { stderr: payload, native: payload } });
  return ended;
};

/** Returns the transcript of a session, by the numbers of its items. */
async function transcript(daemon, id) {
  const items = new Map();
  for (let after = 0; ; ) {
    const page = await daemon.api.get(`/v1/sessions/${id}/transcript?limit=500&after=${after}`);
    for (const item of page.items) items.set(item.seq, item);
    if (!page.has_after) return items;
    after = page.last_seq;
  }
}

/** Fails unless open rows show the exact texts of their items. */
function exact(rows, items) {
  for (const { seq, texts } of rows) {
    const item = items.get(seq);
    const text = item.type === 'tool' ? item.output : item.text ?? item.raw;
    // A terminal would show something else.
    if (!/[\r\u001b]/.test(text)) assert.ok(texts.includes(visible(text)), `${JSON.stringify(text)} in ${JSON.stringify(texts)}`);
  }
}

/** Elements and attributes that no text may become. The page's own are all in its templates. */
const FOREIGN = ':is(main, dialog) :is(script, iframe, object, embed, img, video, audio, base, meta, link, style, math, template, marquee, frame, applet, portal)';

/** Fails if anything ran, was requested, or became an element. */
async function unharmed(page, requests) {
  const found = await page.evaluate((foreign) => ({
    elements: [...document.querySelectorAll(foreign)].map((node) => node.outerHTML.slice(0, 200)),
    handlers: [...document.querySelectorAll('*')].flatMap((node) =>
      [...node.attributes].filter((it) => /^on/i.test(it.name) || /^\s*(javascript|data|vbscript):/i.test(it.value)).map((it) => `${node.tagName} ${it.name}=${it.value}`)),
    links: [...document.querySelectorAll(':is(main, dialog) a[href]')].map((node) => node.href)
      .filter((href) => !/^(https?|mailto):/.test(href)),
    base: document.baseURI.split('#')[0] === `${location.origin}/`,
  }), FOREIGN);
  assert.deepEqual(found, { elements: [], handlers: [], links: [], base: true });
  assert.deepEqual(page.problems, []);
  assert.deepEqual(requests, []);
}

/** Opens a page that records what it asks for, besides its own files and the API. */
async function guarded(t, daemon) {
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon);
  const requests = [];
  await page.context().route('**/*', (route) => {
    const url = new URL(route.request().url());
    const own = url.origin === origin && (url.pathname === '/' || /^\/(v1|assets)\//.test(url.pathname));
    if (own) return route.fallback();
    requests.push(url.href);
    return route.abort();
  });
  const popups = [];
  page.context().on('page', (popup) => popups.push(popup.url()));
  // A dialog would be a script of ours that ran.
  await page.addInitScript(() => {
    for (const name of ['alert', 'confirm', 'prompt', 'print']) window[name] = () => (window.ran = true);
    document.addEventListener('securitypolicyviolation', (event) => console.error(`blocked: ${event.blockedURI}`));
  });
  page.unharmed = async () => {
    await unharmed(page, requests);
    assert.deepEqual(popups, []);
    assert.equal(await page.evaluate(() => window.ran ?? false), false, 'a script ran');
    assert.equal(new URL(page.url()).origin, origin);
  };
  await page.reload();
  return page;
}

/** Opens all folds, and returns the rows that have whole texts: `{seq, texts}`. */
function openRows(page) {
  // The content of a fold comes with an event, and that of a gap with a page.
  return h.until(() => page.evaluate(() => {
    for (const box of document.querySelectorAll('main details:not([open])')) box.open = true;
    const isEmpty = (box) => box.childElementCount < 2;
    // On this screen and the next: a place within a gap is only an estimate.
    const isNear = ({ top, bottom }) => top < 2 * innerHeight && bottom > 0;
    if ([...document.querySelectorAll('main .row details')].some(isEmpty)) return null;
    if ([...document.querySelectorAll('.gap')].some((gap) => isNear(gap.getBoundingClientRect()))) return null;
    return [...document.querySelectorAll('.row:is(.thinking, .tool, .prompt, .unreadable)')].map((node) => ({
      seq: Number(node.dataset.seq), texts: [...node.querySelectorAll('.thoughts, .said, pre')].map((part) => part.textContent),
    }));
  }), 'open folds');
}

/** Reads a session from its top to its end, and calls `check` with the open rows of each screen. */
async function readAll(page, check) {
  for (let isMore = true; isMore; ) {
    const rows = await openRows(page);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await check(rows);
    isMore = await page.evaluate(() => {
      const before = scrollY;
      scrollBy({ top: innerHeight, behavior: 'instant' });
      return scrollY > before;
    });
  }
}

test('the corpus is large enough', () => {
  assert.ok(PAYLOADS.length >= 60, `${PAYLOADS.length}`);
});

test('no payload in a conversation runs or leaves the page', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [...events(), failed(PAYLOADS.join('\n'))], { prompt: PAYLOADS.join('\n') });
  await daemon.api.post(`/v1/sessions/${session.id}/stop`);
  await h.until(async () => (await daemon.api.get(`/v1/sessions/${session.id}`)).state === 'ended', 'its end');
  const page = await guarded(t, daemon);
  await h.visit(page, `/s/${session.id}`);
  await page.locator('.row').first().waitFor();
  // What the agent said is there, exactly, and nothing of it is left out.
  const items = await transcript(daemon, session.id);
  const all = [...items.values()];
  assert.deepEqual(all.filter(({ type }) => type === 'thinking').map(({ text }) => text), PAYLOADS);
  const wanted = all.filter(({ type }) => ['thinking', 'tool', 'prompt', 'unreadable'].includes(type)).map(({ seq }) => seq);
  const seen = new Set();
  await readAll(page, async (rows) => {
    await page.unharmed();
    exact(rows, items);
    for (const { seq } of rows) seen.add(seq);
  });
  // A jump over a gap that was loaded meanwhile may skip some: they are opened by their numbers.
  for (const seq of wanted.filter((seq) => !seen.has(seq))) {
    await h.visit(page, `/s/${session.id}/${seq}`);
    await page.locator(`.row[data-seq="${seq}"]`).waitFor();
    exact(await openRows(page), items);
    await page.unharmed();
  }
  // The names of the timeline, which appear under the pointer.
  await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
  const strip = page.getByRole('slider', { name: 'Timeline' });
  const { x, y, width } = await strip.boundingBox();
  const tips = new Set();
  for (let at = 0; at < width; at += 12) {
    await page.mouse.move(x + at, y + 5);
    tips.add(await page.locator('.tip').textContent());
    await page.unharmed();
  }
  assert.ok([...tips].some((tip) => tip.includes('<')), `${[...tips].slice(0, 20)}`);
  for (const [part, shown] of [['changes', '.changes table'], ['events', '.row.event']]) {
    await h.visit(page, `/s/${session.id}/${part}`);
    await page.locator(shown).first().waitFor();
    await readAll(page, page.unharmed);
  }
  await h.visit(page, '/search?q=alert');
  const hits = page.locator('.results li');
  await hits.first().waitFor();
  const more = page.getByRole('button', { name: 'Show more' });
  while (await more.isVisible()) {
    const before = await hits.count();
    await more.click();
    await h.until(async () => (await hits.count()) > before, 'more hits');
  }
  await page.unharmed();
});

test('no payload in a title, a model or an error that the daemon passes on runs', async (t) => {
  const daemon = await h.startDaemon(t);
  const some = PAYLOADS.filter((payload) => payload.trim());
  const sessions = [];
  for (const payload of some) {
    sessions.push(await h.playedSession(daemon, [started(payload), failed(payload)], { prompt: payload, settle: false }));
  }
  const all = [];
  for (const { id } of sessions) all.push(await h.settled(daemon, id));
  assert.deepEqual(all.map(({ model }) => model), some, 'the daemon passes them on');
  const titles = new Set(all.map(({ title, name }) => visible((title ?? name).replaceAll('\t', ' '))));
  const page = await guarded(t, daemon);
  await h.visit(page, '/');
  const rows = page.locator('.sessions tbody tr');
  await rows.nth(99).waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await rows.nth(some.length - 1).waitFor();
  for (const title of await page.locator('.sessions td.main a').allTextContents()) assert.ok(titles.has(title), title);
  await page.unharmed();
  await h.visit(page, '/usage?by=model&split=agent');
  await page.locator('.usagetable tbody tr').nth(50).waitFor();
  await page.unharmed();
  for (const [n, { id }] of sessions.entries()) {
    if (n % 5) continue; // the others differ in the same fields only
    await h.visit(page, `/s/${id}`);
    await page.locator('.row.turn_ended .failure').waitFor();
    assert.equal(await page.locator('.failure p').first().textContent(), visible(some[n]));
    await page.unharmed();
  }
});

test('no payload that streams runs', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await guarded(t, daemon);
  const pieces = PAYLOADS.flatMap((payload) => [h.text(payload, { delta: true, message: 'm' }), h.wait(2)]);
  const session = await h.playedSession(daemon, [...pieces, { hang: true }], { settle: false });
  await h.visit(page, `/s/${session.id}`);
  const shown = async () => (await page.locator('.row.reply .body').allTextContents()).join('');
  await h.until(async () => (await shown()).includes(PAYLOADS.at(-1).slice(0, 12)), 'the last payload').catch(async (error) => {
    throw new Error(`${error.message}: ${JSON.stringify(await shown())}`);
  });
  await page.unharmed();
  await h.until(async () => (await shown()) === visible(PAYLOADS.join('')), 'every character').catch(async () => assert.equal(await shown(), visible(PAYLOADS.join(''))));
  assert.equal(await page.locator('.row.reply .body *:not(div, span)').count(), 0, 'an open message is text');
});

test('no payload in a title, name, label or directory runs', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await guarded(t, daemon);
  // Fields of a session that the daemon itself would not let an agent choose are replaced on the way.
  // Their times stay, so that the page draws a request once.
  const now = Date.now();
  const times = { asked_at: new Date(now).toISOString(), expires_at: new Date(now + 86_400_000).toISOString() };
  const session = await h.playedSession(daemon, [h.text('x')]);
  for (let at = 0; at < PAYLOADS.length; at += 25) {
    const some = PAYLOADS.slice(at, at + 25);
    const views = some.map((payload, n) => ({
      ...session,
      id: n === 0 ? session.id : `id-${n}`,
      title: payload,
      name: n % 2 ? payload : null,
      agent: payload,
      model: payload,
      dir: `/${payload}`,
      labels: { [payload]: payload },
      outcome: { status: 'failed', cause: payload, message: payload },
      state: n % 2 ? 'ended' : 'idle',
      native_session: payload,
      pending_approvals: n % 3,
    }));
    await page.route(/\/v1\/sessions(\?.*)?$/, (route) => route.fulfill({ json: { sessions: views } }));
    await page.route(`**/v1/sessions/${session.id}`, (route) => route.fulfill({ json: views[0] }));
    await page.route('**/v1/agents*', (route) => route.fulfill({
      json: { agents: some.map((payload, n) => ({ name: payload, ready: n % 2 === 0, version: payload, reason: payload, models: [payload] })) },
    }));
    await page.route('**/v1/approvals?*', (route) => route.fulfill({
      json: { approvals: some.map((payload, n) => ({
        id: `approval-${n}`, session: session.id, name: payload, agent: payload, dir: `/${payload}`, tool: payload, kind: 'other',
        summary: payload, rule: payload, always: payload, always_rule: payload, message: payload, decided_by: payload, state: 'pending',
        diff: n % 2 ? [] : [{ path: payload, moved_from: payload, added: 1, removed: 1, partial: true, hunks: [{ old_start: 0, new_start: 0, lines: [{ op: '-', text: payload }, { op: '+', text: `${payload}!` }] }] }],
        ...times,
        event: { input: { command: n % 3 ? payload : [payload, payload], [payload]: payload, other: [payload] }, seq: 1 },
      })) },
    }));
    await page.route('**/v1/usage?*', (route) => {
      const group = (key) => ({ key, sessions: 1, turns: 1, usage: { input: 5, output: 5, cost_usd: 1, cost_source: key } });
      const groups = some.map((payload) => ({ ...group(payload), parts: [group(payload), group(`${payload}2`)] }));
      return route.fulfill({ json: { by: 'model', split: 'agent', groups, total: group('total') } });
    });
    await h.visit(page, '/');
    await page.reload();
    await page.locator('.sessions tbody tr').nth(some.length - 1).waitFor();
    await page.unharmed();
    await h.visit(page, `/s/${session.id}`);
    await page.locator('.row').first().waitFor();
    await page.unharmed();
    await h.visit(page, '/new');
    await page.locator(`select[name=agent] option:nth-child(${some.length})`).waitFor({ state: 'attached' });
    await page.unharmed();
    await h.visit(page, '/usage');
    await page.locator('.usagetable tbody tr').first().waitFor();
    await page.unharmed();
    await h.visit(page, '/approvals');
    for (let n = 0; n < some.length; n += 1) {
      await page.locator('.request button').nth(n).click();
      await page.getByRole('dialog').waitFor();
      await page.unharmed();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    }
    await page.unroute(/\/v1\/sessions(\?.*)?$/);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  }
});

test('no payload in an outcome, a permission or a problem runs', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [h.text('x')]);
  const page = await guarded(t, daemon);
  const at = new Date().toISOString();
  const items = PAYLOADS.flatMap((payload, n) => {
    const base = (part) => ({ seq: n * 4 + part, last_seq: n * 4 + part, turn: n + 1, at });
    const decision = { decision: ['asked', 'allowed', 'denied'][n % 3], by: 'rule', message: payload };
    const outcome = { status: 'failed', cause: n % 2 ? payload : 'rate_limit', message: payload, hint: payload, detail: { stderr: payload } };
    return [
      { ...base(1), type: 'permission', tool: payload, kind: 'other', input: { command: [payload], [payload]: payload }, ...decision },
      { ...base(2), type: 'tool', id: `${n} ${payload}`, name: payload, kind: 'other', summary: payload, input: { [payload]: payload }, output: payload, ok: false, started_at: at, permission: decision },
      { ...base(3), type: 'turn_ended', outcome, usage: { input: 1, cost_usd: 1, cost_source: payload }, duration_ms: 5 },
      { ...base(4), type: n % 2 ? 'ended' : payload, outcome },
    ];
  });
  const last = items.at(-1).seq;
  await page.route('**/transcript?*', (route) => route.fulfill({
    json: { items, first_seq: 1, last_seq: last, complete_to: last, has_before: false, has_after: false, total_events: last },
  }));
  await h.visit(page, `/s/${session.id}`);
  await page.locator('.row').first().waitFor();
  await readAll(page, page.unharmed);
  // What the daemon says about a request that failed.
  let payload;
  await page.route('**/messages', (route) => route.fulfill({ status: 409, json: { title: payload, detail: payload, hint: payload, cause: payload } }));
  for (payload of PAYLOADS) {
    page.problems.length = 0;
    await page.getByLabel('Message', { exact: true }).fill('go');
    await page.getByRole('button', { name: 'Send' }).click();
    await h.until(async () => (await page.locator('.problem p').count()) === 2, 'the problem');
    // The browser itself reports the status on its console.
    await h.until(() => page.problems.length > 0, 'the report of the status');
    page.problems = page.problems.filter((it) => !it.includes('409'));
    await page.unharmed();
    await page.evaluate(() => document.querySelector('.problem').remove());
  }
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

test('no payload in an exported file runs', async (t) => {
  const daemon = await h.startDaemon(t);
  const all = PAYLOADS.join('\n');
  const session = await h.playedSession(daemon, [started(all), ...events(), failed(all)], { prompt: all });
  const file = `${daemon.dir}/session.html`;
  await daemon.shell(`ostler sessions export ${session.id} --format html > ${file}`);
  const page = await h.newPage(t);
  const requests = [];
  page.on('request', (request) => request.url() === `file://${file}` || requests.push(request.url()));
  await page.goto(`file://${file}`);
  await page.locator('.row').first().waitFor();
  // The names of agents are Ostler's own, so only a file that was changed can have others.
  const items = await transcript(daemon, session.id);
  await readAll(page, async (rows) => {
    assert.deepEqual(page.problems, []);
    assert.deepEqual(requests, []);
    assert.equal(await page.locator(FOREIGN).count(), 0);
    exact(rows, items);
  });
  await page.getByRole('link', { name: /^Changes/ }).click();
  await page.locator('.changes table').first().waitFor();
  assert.equal(await page.locator(FOREIGN).count(), 0);
  assert.deepEqual([page.problems, requests], [[], []]);
});
