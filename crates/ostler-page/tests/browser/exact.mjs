// What is shown is exact: diffs, commands, arguments, states, lists and positions. Nothing is
// invented, hidden or lost.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as h from './harness.mjs';

const tool = (page, name) => page.locator('.row.tool', { hasText: name }).first();
const focused = (page) => page.evaluate(() => document.activeElement.textContent);

test('a diff invents no line numbers, and says what is not known', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [
    ...h.editCall('src/part.rs', 'one\ntwo', 'one\n2', { output: 'done' }),
    ...h.toolCall('Write', { file_path: 'src/whole.rs', content: 'new\n' }, { output: 'done' }),
  ]);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  const part = tool(page, 'src/part.rs');
  await part.locator('summary').click();
  await part.locator('table.unified').waitFor();
  assert.deepEqual(new Set(await part.locator('td.no').allTextContents()), new Set(['']), 'the position is unknown');
  await part.getByRole('button', { name: 'Side by side' }).click();
  await part.locator('table.split').waitFor();
  assert.equal(await focused(page), 'Side by side', 'the focus stays');
  const whole = tool(page, 'src/whole.rs');
  await whole.locator('summary').click();
  await whole.getByText('What it replaces is not known.').waitFor();
  assert.deepEqual(await whole.locator('td.no:not(.none)').allTextContents(), ['1']);
  assert.deepEqual(page.problems, []);
});

/** Opens the dialog of a request with these fields. */
async function requested(t, fields) {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [h.text('x')]);
  const page = await h.newPage(t);
  await h.login(page, daemon, { approve: true });
  const approval = {
    id: 'a', session: session.id, name: 'n', agent: 'claude', dir: '/w', tool: 'Edit', kind: 'edit', state: 'pending', summary: 's', options: [],
    asked_at: new Date().toISOString(), expires_at: new Date(Date.now() + 600_000).toISOString(), ...fields,
  };
  await page.route('**/v1/approvals?*', (route) => route.fulfill({ json: { approvals: route.request().url().includes('pending') ? [approval] : [] } }));
  await h.visit(page, '/approvals');
  await page.reload();
  await page.getByRole('button', { name: /^Review/ }).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  return { page, dialog };
}

test('a request with words shows them as a shell would read them', async (t) => {
  const { dialog } = await requested(t, { tool: 'shell', event: { input: { command: ['printf', 'a b', "it's", '$(id)'], timeout: 5 } } });
  assert.equal(await dialog.locator('.exact .command').textContent(), "printf 'a b' 'it'\\''s' '$(id)'");
  assert.deepEqual(JSON.parse(await dialog.locator('.exact pre.rest').textContent()), { timeout: 5 });
});

test('a request with a diff shows every argument that the diff does not', async (t) => {
  const diff = [{ path: '/w/a.rs', added: 1, removed: 1, hunks: [{ old_start: 0, new_start: 0, lines: [{ op: '-', text: 'x' }, { op: '+', text: 'y' }] }] }];
  const input = { file_path: '/w/a.rs', old_string: 'x', new_string: 'y\n', replace_all: true, mode: 'append' };
  const rule = '[[rule]]  # until the session ends\ntool = "Edit"\npath = ["/w/a.rs"]\ndo = "allow"';
  const { page, dialog } = await requested(t, { diff, event: { input }, always: 'Edit: /w/a.rs', always_rule: rule });
  assert.deepEqual(JSON.parse(await dialog.locator('.exact pre.rest').textContent()), { replace_all: true, mode: 'append' });
  assert.equal(await dialog.getByLabel('Rule').textContent(), rule);
  await dialog.getByRole('button', { name: 'Side by side' }).click();
  await dialog.locator('table.split').waitFor();
  assert.equal(await focused(page), 'Side by side');
});

test('a failed turn is not idle', async (t) => {
  const daemon = await h.startDaemon(t);
  const failure = h.turnEnded({ status: 'failed', cause: 'rate_limit', message: 'Slow down.' });
  const session = await h.playedSession(daemon, [failure], { prompt: 'Fails' });
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await page.locator('.sessions tr', { hasText: 'Fails' }).getByText('Turn failed').waitFor();
  await h.visit(page, `/s/${session.id}`);
  await page.locator('.meta .chip.bad').getByText('Turn failed').waitFor();
});

test('a late answer does not undo a newer one', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [h.text('x'), { hang: true }], { settle: false });
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.locator('.meta .chip').getByText('Working').waitFor();
  await h.live(page);
  // The first answer is as old as the request, but arrives last.
  const held = [];
  await page.route(`**/v1/sessions/${session.id}`, async (route) => {
    if (held.length > 0) return route.fallback();
    const response = await route.fetch();
    await new Promise((done) => held.push(done));
    return route.fulfill({ response });
  });
  await daemon.api.post(`/v1/sessions/${session.id}/pause`);
  await h.until(() => held.length > 0, 'a request');
  await daemon.api.post(`/v1/sessions/${session.id}/stop`);
  const chip = page.locator('.meta .chip');
  await chip.getByText('Stopped').waitFor();
  const late = page.waitForResponse(`**/v1/sessions/${session.id}`);
  held[0]();
  await (await late).finished();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  assert.equal(await chip.textContent(), 'Stopped');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

/** Makes pages of the list of sessions short. */
async function shortPages(page) {
  await page.route(/\/v1\/sessions\?/, (route) => route.continue({ url: route.request().url().replace('limit=100', 'limit=2') }));
}

test('more rows stay, and rows leave when they no longer match', async (t) => {
  const daemon = await h.startDaemon(t);
  const sessions = [];
  for (const n of [1, 2, 3, 4, 5]) sessions.push(await h.playedSession(daemon, [h.text('x')], { prompt: `number ${n}`, labels: { number: `n${n}` } }));
  const page = await h.newPage(t);
  await shortPages(page);
  await h.login(page, daemon);
  const rows = page.locator('.sessions tbody tr');
  const titles = () => page.locator('.sessions td.main a').allTextContents();
  const shows = (...wanted) => h.until(async () => (await titles()).join() === wanted.join(), wanted.join());
  await shows('number 5', 'number 4');
  await page.getByRole('button', { name: 'Show more' }).click();
  await shows('number 5', 'number 4', 'number 3', 'number 2');
  await page.mouse.move(0, 0); // a row that is pointed at stays
  await page.locator('#live').getByText('Live').waitFor();
  // An event of a session that is not in the table.
  const again = page.waitForResponse((response) => /\/v1\/sessions\?.*waiting=true/.test(response.url()));
  await daemon.api.post(`/v1/sessions/${sessions[0].id}/messages`, { text: 'more' });
  await again;
  await h.settled(daemon, sessions[0].id);
  assert.equal(await rows.count(), 4);
  await page.getByLabel('State').selectOption('Idle');
  await shows('number 5', 'number 4');
  await daemon.api.post(`/v1/sessions/${sessions[4].id}/stop`);
  await h.until(async () => !(await titles()).includes('number 5'), 'the end of the row');
  // The address has the filters; a part of a label is enough, and finds what is on a later page.
  await page.getByLabel('State').selectOption('All sessions');
  await page.getByLabel('Label').fill('N1');
  await shows('number 1');
  await page.getByLabel('Label').fill('n4');
  await shows('number 4');
  await h.until(() => page.url().includes('label=n4'), 'the address');
  await page.reload();
  await shows('number 4');
  assert.equal(await page.getByLabel('Label').inputValue(), 'n4');
  assert.deepEqual(page.problems, []);
});

test('rows that are being read stay in their places until the reader asks', async (t) => {
  const daemon = await h.startDaemon(t);
  const script = '[[reply]]\ncalls = [{ tool = "write_file", input = { path = "b", content = "" } }]\n[[reply]]\ntext = "done"\n';
  const asking = await h.scriptedSession(daemon, script, { permissions: 'ask', name: 'asking' });
  for (const prompt of ['one', 'two', 'three']) await h.playedSession(daemon, [h.text('x')], { prompt });
  const page = await h.newPage(t);
  await h.login(page, daemon);
  const titles = () => page.locator('.sessions td.main a').allTextContents();
  const shows = (...wanted) => h.until(async () => (await titles()).join() === wanted.join(), wanted.join());
  const pill = page.locator('.pill');
  await shows('three', 'two', 'one', 'asking');
  await h.live(page);
  // A session begins to wait and comes first, and another is new: both would move the row.
  await page.locator('.sessions tr', { hasText: 'two' }).hover();
  await daemon.api.post(`/v1/sessions/${asking.id}/messages`, { text: 'go' });
  await page.locator('.sessions tr', { hasText: 'Needs approval' }).waitFor();
  await pill.getByText('New order').waitFor();
  await h.playedSession(daemon, [h.text('x')], { prompt: 'four' });
  await pill.getByText('1 new session').waitFor();
  assert.deepEqual((await titles()).slice(0, 3), ['three', 'two', 'one']);
  await pill.focus();
  await page.keyboard.press('Enter');
  await shows('go', 'four', 'three', 'two', 'one');
  assert.equal(await focused(page), 'go');
  await pill.waitFor({ state: 'hidden' });
  // With the focus on a row, and nothing pointed at. When that ends, so does the waiting.
  await page.mouse.move(0, 0);
  await h.playedSession(daemon, [h.text('x')], { prompt: 'five' });
  await pill.getByText('1 new session').waitFor();
  assert.equal((await titles())[1], 'four');
  await page.getByLabel('Filter sessions').focus();
  await shows('go', 'five', 'four', 'three', 'two', 'one');
  assert.deepEqual(page.problems, []);
});

test('a fold that has just been opened stays open when its row is drawn anew', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, h.toolCall('Bash', { command: 'ls' }, { output: 'the output' }));
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await tool(page, 'ls').waitFor();
  // In one task: the event of the fold comes later.
  const isOther = await page.evaluate(() => {
    window.requestAnimationFrame = (work) => work();
    const node = document.querySelector('.row.tool');
    node.querySelector('summary').click();
    node.row.dirty = true;
    document.querySelector('.log').style.width = '500px';
    dispatchEvent(new Event('scroll'));
    return document.querySelector('.row.tool') !== node;
  });
  assert.ok(isOther, 'it was drawn anew');
  await tool(page, 'ls').getByText('the output').waitFor();
});

test('sessions that an agent started are listed below the one that it works for', async (t) => {
  const daemon = await h.startDaemon(t);
  const ids = {};
  for (const prompt of ['parent', 'other', 'child']) ids[prompt] = (await h.playedSession(daemon, [h.text('x')], { prompt })).id;
  const page = await h.newPage(t);
  await page.route(/\/v1\/sessions(\?|$)/, async (route) => {
    const json = await (await route.fetch({ url: route.request().url().replace(/parent=[^&]*&/, '') })).json();
    const sessions = json.sessions.map((it) => (it.id === ids.child ? { ...it, parent: ids.parent } : it));
    const wanted = new URL(route.request().url()).searchParams.get('parent');
    await route.fulfill({ json: { ...json, sessions: wanted === ids.parent ? sessions.filter((it) => it.parent) : sessions } });
  });
  await h.login(page, daemon);
  await page.locator('.sessions tr.child').waitFor();
  assert.deepEqual(await page.locator('.sessions td.main a').allTextContents(), ['other', 'parent', 'child']);
  await h.visit(page, `/s/${ids.parent}`);
  await page.locator('aside').getByRole('link', { name: ids.child.slice(0, 8) }).waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

test('a page of events that is cut where it gets too large is continued', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, h.longEvents(400));
  const page = await h.newPage(t);
  // As the daemon does beyond 16 MiB: the events next to the end that was asked for stay.
  await page.route('**/history?*', async (route) => {
    const json = await (await route.fetch()).json();
    const cut = route.request().url().includes('before=') ? json.events.slice(-40) : json.events.slice(0, 40);
    await route.fulfill({ json: { events: cut, first: cut[0]?.seq ?? null, last: cut.at(-1)?.seq ?? null } });
  });
  await h.login(page, daemon, { session: `${session.id}/events` });
  await page.locator('.row.event').first().waitFor();
  const top = () => page.evaluate(() => {
    scrollTo({ top: 0, behavior: 'instant' });
    return document.querySelector('.row.event .no')?.textContent;
  });
  await h.until(async () => (await top()) === '1', 'the first event');
  const seen = new Set();
  await h.until(async () => {
    for (const no of await page.locator('.row.event .no').allTextContents()) seen.add(no);
    await page.mouse.move(400, 400);
    await page.mouse.wheel(0, 500);
    return seen.size >= session.last_seq;
  }, 'all events');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

test('events that a tab did not hear are loaded, without a hole', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, '[[reply]]\nrepeat = true\ntext = "You said: {prompt}"\n', { prompt: 'first' });
  await h.settled(daemon, session.id);
  const leader = await h.newPage(t);
  const origin = await h.login(leader, daemon);
  await h.live(leader);
  // A tab without the stream, which can be made deaf to the one that has it.
  const page = await h.newTab(leader);
  await page.addInitScript(() => {
    window.missed = [];
    Object.defineProperty(BroadcastChannel.prototype, 'onmessage', {
      set(hear) {
        this.addEventListener('message', (message) => {
          if (window.deaf && message.data.kind === 'events') window.missed.push(...message.data.events.map((event) => event.type));
          else hear(message);
        });
      },
    });
  });
  await page.goto(`${origin}/#/s/${session.id}/events`);
  await h.live(page);
  await page.locator('.row.event', { hasText: 'turn_ended' }).waitFor();
  const say = async (text) => {
    await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text });
    return h.settled(daemon, session.id);
  };
  await page.evaluate(() => (window.deaf = true));
  await say('unheard');
  await h.until(() => page.evaluate(() => window.missed.includes('turn_ended')), 'the missed events');
  await page.evaluate(() => (window.deaf = false));
  const { last_seq: last } = await say('heard');
  const numbers = () => page.locator('.row.event .no').allTextContents();
  const all = Array.from({ length: last }, (_, n) => String(n + 1));
  await h.until(async () => (await numbers()).join() === all.join(), 'all events').catch(async () => assert.deepEqual(await numbers(), all));
  assert.deepEqual(page.problems, []);
});

test('new changes are offered, and what is being read stays', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [...h.editCall('a.rs', 'x', 'y'), ...h.editCall('b.rs', 'x', 'y')]);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.getByRole('link', { name: /^Changes/ }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.changes table').first().waitFor();
  assert.match(await focused(page), /^Changes/, 'the focus stays on the tab');
  await page.locator('#live').getByText('Live').waitFor();
  await page.locator('details.file', { hasText: 'b.rs' }).locator('summary').click();
  let changed = false;
  await page.route('**/changes', async (route) => {
    const json = await (await route.fetch()).json();
    await route.fulfill({ json: changed ? { ...json, files: [...json.files, { path: 'c.rs', added: 0, removed: 0, hunks: [] }] } : json });
  });
  changed = true;
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'more' });
  const pill = page.getByRole('button', { name: 'New changes' });
  await pill.waitFor();
  assert.equal(await page.locator('details.file').count(), 2);
  await pill.click();
  await page.locator('details.file', { hasText: 'c.rs' }).waitFor();
  assert.equal(await page.locator('details.file', { hasText: 'b.rs' }).evaluate((node) => node.open), false, 'it stays folded');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

test('a browser can be unlocked without a request', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await h.visit(page, '/approvals');
  await page.getByLabel('Approval code').waitFor();
  await h.visit(page, '/new');
  await page.getByLabel('Task').fill('go');
  await page.getByLabel('Directory').fill(daemon.work);
  await page.getByLabel('Agent', { exact: true }).locator('option[value=scripted]').waitFor({ state: 'attached' });
  const code = page.getByLabel('Approval code');
  assert.equal(await code.isVisible(), false);
  await page.getByLabel('Permissions').selectOption('all');
  await code.fill(await daemon.approvalCode());
  await page.keyboard.press('Enter');
  await code.waitFor({ state: 'detached' });
  assert.ok(page.url().endsWith('/new'), 'the code does not start the session');
  assert.equal((await h.browserSession(page)).can_approve, true);
  await h.visit(page, '/approvals');
  await page.getByText('Nothing waits for approval.').waitFor();
  assert.equal(await page.getByLabel('Approval code').count(), 0);
});

test('progress that overwrites its line is shown as it ended', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, h.toolCall('Bash', { command: 'fetch' }, { output: '10 %\r55 %\r100 %\r\nreceived\r' }));
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await tool(page, 'fetch').locator('summary').click();
  assert.equal(await tool(page, 'fetch').locator('pre').last().textContent(), '100 %\nreceived');
});

test('hidden characters are visible wherever they are', async (t) => {
  const daemon = await h.startDaemon(t);
  const evil = 'safe\u202Egnp.exe';
  const session = await h.playedSession(daemon, [
    h.thought(evil), h.text(`Reply ${evil}`), ...h.toolCall('Bash', { command: `echo ${evil}` }, { output: evil }), ...h.editCall(`${evil}.rs`, evil, 'y'),
  ], { prompt: evil, labels: { kind: 'x' } });
  const page = await h.newPage(t);
  await h.login(page, daemon);
  for (const [view, shown] of [['/', '.sessions a'], [`/s/${session.id}`, '.row.turn_ended'], [`/s/${session.id}/changes`, '.changes table'], [`/s/${session.id}/events`, '.row.event'], ['/search?q=safe', '.results li']]) {
    await h.visit(page, view);
    await page.locator('main').locator(shown).first().waitFor();
    await page.evaluate(() => document.querySelectorAll('main details').forEach((box) => (box.open = true)));
    await page.locator('main').getByText('U+202E').first().waitFor();
    assert.equal(await page.evaluate(() => `${document.title}${document.body.innerText}`.includes('\u202E')), false, view);
  }
});
