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

/** Elements and attributes that no text may become. The page's own are all in its templates. */
const FOREIGN = 'main :is(script, iframe, object, embed, img, video, audio, base, meta, link, style, math, template, marquee, frame, applet, portal)';

/** Fails if anything ran, was requested, or became an element. */
async function unharmed(page, requests) {
  const found = await page.evaluate((foreign) => ({
    elements: [...document.querySelectorAll(foreign)].map((node) => node.outerHTML.slice(0, 200)),
    handlers: [...document.querySelectorAll('*')].flatMap((node) =>
      [...node.attributes].filter((it) => /^on/i.test(it.name) || /^\s*(javascript|data|vbscript):/i.test(it.value)).map((it) => `${node.tagName} ${it.name}=${it.value}`)),
    links: [...document.querySelectorAll('main a[href]')].map((node) => node.href)
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

/** Opens all folds, row by row, from the top of the session to its end, and calls `check` on each screen. */
async function readAll(page, check) {
  for (;;) {
    await page.evaluate(() => {
      for (const box of document.querySelectorAll('main details:not([open])')) box.open = true;
    });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await check();
    const moved = await page.evaluate(() => {
      const before = scrollY;
      scrollBy({ top: innerHeight * 2, behavior: 'instant' });
      return scrollY > before;
    });
    if (!moved && (await page.locator('.gap').count()) === 0) return;
  }
}

test('the corpus is large enough', () => {
  assert.ok(PAYLOADS.length >= 60, `${PAYLOADS.length}`);
});

test('no payload in a conversation runs or leaves the page', async (t) => {
  const daemon = await h.startDaemon(t);
  const events = PAYLOADS.flatMap((payload, n) => {
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
  const failed = h.turnEnded({ status: 'failed', cause: 'bad_request', message: PAYLOADS[0], reply: PAYLOADS.join('\n') });
  failed.outcome.hint = PAYLOADS[1];
  failed.outcome.detail = { stderr: PAYLOADS.join('\n'), native: PAYLOADS[2] };
  const session = await h.playedSession(daemon, [...events, failed], { prompt: PAYLOADS.join('\n') });
  await daemon.api.post(`/v1/sessions/${session.id}/stop`);
  await h.until(async () => (await daemon.api.get(`/v1/sessions/${session.id}`)).state === 'ended', 'its end');
  const page = await guarded(t, daemon);
  await h.visit(page, `/s/${session.id}`);
  await page.locator('.row').first().waitFor();
  await readAll(page, page.unharmed);
  for (const [part, shown] of [['changes', '.changes table'], ['events', '.row.event']]) {
    await h.visit(page, `/s/${session.id}/${part}`);
    await page.locator(shown).first().waitFor();
    await readAll(page, page.unharmed);
  }
  await h.visit(page, '/search?q=alert');
  await page.locator('.results li').first().waitFor();
  await page.unharmed();
  // The exact text is there, as text: the last reply of each payload.
  const { items } = await daemon.api.get(`/v1/sessions/${session.id}/transcript?limit=500`);
  assert.ok(items.some((item) => item.text === PAYLOADS[0]));
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
  assert.equal(await page.locator('.row.reply .body *:not(div, span)').count(), 0, 'an open message is text');
});

test('no payload in a title, name, label or directory runs', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await guarded(t, daemon);
  // Fields of a session that the daemon itself would not let an agent choose are replaced on the way.
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
        asked_at: new Date().toISOString(), expires_at: new Date(Date.now() + 600_000).toISOString(),
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
  const events = PAYLOADS.flatMap((payload) => [h.text(payload), ...h.editCall(payload, payload, `${payload}!`)]);
  const session = await h.playedSession(daemon, events, { prompt: PAYLOADS.join('\n') });
  const file = `${daemon.dir}/session.html`;
  await daemon.shell(`ostler sessions export ${session.id} --format html > ${file}`);
  const page = await h.newPage(t);
  const requests = [];
  page.on('request', (request) => request.url() === `file://${file}` || requests.push(request.url()));
  await page.goto(`file://${file}`);
  await page.locator('.row').first().waitFor();
  await readAll(page, async () => {
    assert.deepEqual(page.problems, []);
    assert.deepEqual(requests, []);
    assert.equal(await page.locator(FOREIGN).count(), 0);
  });
});
