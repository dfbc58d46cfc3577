// Permission requests: badge, dialog, answers, and who answered.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import * as h from './harness.mjs';

const write = (name) => ({ tool: 'write_file', input: { path: name, content: 'a line\n' } });
const badge = (page) => page.locator('#badge');
const dialog = (page) => page.getByRole('dialog');

/** Opens the dialog of the first request, and waits until its buttons work. */
async function review(page) {
  await page.getByRole('button', { name: /^Review/ }).first().click();
  await dialog(page).locator('button[aria-disabled=false]').first().waitFor();
}

async function start(t, calls, { approve = true, ...fields } = {}) {
  const daemon = await h.startDaemon(t);
  const session = await h.askingSession(daemon, calls, fields);
  await h.pending(daemon);
  const page = await h.newPage(t);
  await h.login(page, daemon, { approve });
  if (approve) await page.reload();
  await badge(page).getByText('1').waitFor();
  return { daemon, page, session, file: (name) => path.join(daemon.work, name) };
}

test('a badge on every view leads to the dialog, which shows what is asked', async (t) => {
  const { daemon, page, session } = await start(t, [write('notes.txt')], { name: 'notes' });
  const views = { '/': 'Sessions', '/approvals': 'Approvals', '/search': 'Search', '/usage': 'Usage', '/new': 'New session', [`/s/${session.id}`]: 'go' };
  for (const [view, title] of Object.entries(views)) {
    await h.visit(page, view);
    await page.waitForFunction((title) => document.title === `(1) ${title} · Ostler`, title);
    await badge(page).getByText('1').waitFor();
  }
  await page.getByRole('link', { name: /^Approvals/ }).click();
  await page.locator('.request', { hasText: 'notes.txt' }).waitFor();
  await review(page);
  const box = dialog(page);
  for (const text of ['write_file', 'scripted', daemon.work, 'notes', 'a line', 'left', 'Allow once', 'Allow always', 'Deny']) {
    assert.ok((await box.textContent()).includes(text), `${text}: ${await box.textContent()}`);
  }
  assert.match(await box.locator('tr.add').textContent(), /a line/);
  await box.getByRole('button', { name: 'Side by side' }).click();
  await box.locator('table.split').waitFor();
  assert.deepEqual(page.problems, []);
});

test('the dialog names the rule that asked, and says how much time is left', async (t) => {
  const daemon = await h.startDaemon(t, { args: ['--approval-timeout', '20m'] });
  mkdirSync(daemon.env.OSTLER_CONFIG_DIR);
  writeFileSync(path.join(daemon.env.OSTLER_CONFIG_DIR, 'policy.toml'), '[[rule]]\ntool = "write_*"\ndo = "ask"\n');
  await h.askingSession(daemon, [write('notes.txt')]);
  const [approval] = await h.pending(daemon);
  assert.match(approval.rule, /^rule 1 of .*policy\.toml \(write_\*\)$/);
  const page = await h.newPage(t);
  await page.clock.install({ time: Date.parse(approval.asked_at) + 60_000 });
  await h.login(page, daemon, { approve: true });
  await h.visit(page, '/approvals');
  await page.locator('.request .left', { hasText: /^1[89]:\d\d min left$/ }).waitFor();
  await review(page);
  const because = dialog(page).locator('dt', { hasText: 'Asked because' }).locator('+ dd');
  assert.equal(await because.textContent(), approval.rule);
  const left = dialog(page).locator('.left');
  assert.match(await left.textContent(), /^1[89]:\d\d min left$/);
  await page.clock.fastForward('10:00');
  await left.getByText(/^[89]:\d\d min left$/).waitFor();
  await page.clock.fastForward('10:00');
  await left.getByText('expired').waitFor();
});

test('a request that nobody answers expires, and the dialog says so', async (t) => {
  const daemon = await h.startDaemon(t, { args: ['--approval-timeout', '1s'] });
  await h.askingSession(daemon, [write('a.txt')]);
  const [approval] = await h.until(async () => {
    const { approvals } = await daemon.api.get('/v1/approvals?state=all');
    return approvals.length > 0 && approvals;
  }, 'a request');
  const page = await h.newPage(t);
  await h.login(page, daemon, { approve: true });
  // However slow this machine is, the page has seen the request before its end.
  const pending = '**/v1/approvals?state=pending';
  await page.route(pending, (route) => route.fulfill({ json: { approvals: [{ ...approval, state: 'pending' }] } }));
  await h.visit(page, '/approvals');
  await page.getByRole('button', { name: /^Review/ }).click();
  await dialog(page).getByText('expired', { exact: true }).waitFor();
  await page.unroute(pending);
  await dialog(page).getByText('Already expired by timeout.').waitFor();
  assert.equal(await dialog(page).getByRole('button', { name: 'Allow once' }).getAttribute('aria-disabled'), 'true');
  await page.keyboard.press('Escape');
  await page.locator('.decided tbody tr').getByText('expired').waitFor();
});

test('the exact command is shown, whatever it contains', async (t) => {
  const command = { tool: 'run_command', input: { command: 'printf', args: ['a b', '\u202Eevil', '$(id)'] } };
  const { page, daemon } = await start(t, [command]);
  const [approval] = await h.pending(daemon);
  await h.visit(page, '/approvals');
  await review(page);
  const text = await dialog(page).locator('.exact').textContent();
  for (const part of ['printf', 'a b', '$(id)', 'U+202E']) assert.ok(text.includes(part), text);
  assert.ok(!text.includes('\u202E'), 'hidden characters are visible');
  assert.ok(approval.summary.length > 0);
});

test('a file that would be replaced is compared with the disk as of the request', async (t) => {
  const daemon = await h.startDaemon(t);
  const lines = Array.from({ length: 30 }, (_, n) => `line ${n}`);
  const file = path.join(daemon.work, 'notes.txt');
  writeFileSync(file, `${lines.join('\n')}\n`);
  symlinkSync('/etc/hostname', path.join(daemon.work, 'link.txt'));
  const content = `${lines.with(20, 'another line').join('\n')}\n`;
  const ask = (name) => h.askingSession(daemon, [{ tool: 'write_file', input: { path: name, content } }], { prompt: name });
  await ask('notes.txt');
  await h.pending(daemon, 1);
  // What happens afterwards does not count.
  writeFileSync(file, 'changed meanwhile\n');
  for (const name of ['fresh.txt', 'link.txt']) await ask(name);
  await h.pending(daemon, 3);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await h.visit(page, '/approvals');
  const box = dialog(page);
  const shows = async (name, check) => {
    await page.locator('.request', { hasText: name }).getByRole('button').click();
    await box.waitFor();
    await check();
    assert.equal(await box.locator('.exact pre.rest').count(), 0, 'the diff shows all of it');
    await page.keyboard.press('Escape');
    await box.waitFor({ state: 'detached' });
  };
  await shows('notes.txt', async () => {
    await box.getByText('Compared with the disk as of the request').waitFor();
    assert.match(await box.locator('tr.del').textContent(), /^21−line 20$/);
    assert.match(await box.locator('tr.add').textContent(), /^21\+another line$/);
    assert.equal(await box.locator('.diff tbody tr:not(.hunk)').count(), 8, 'three lines around it');
    assert.equal(await box.getByText('is not known').count(), 0);
  });
  await shows('fresh.txt', async () => {
    await box.getByText('A new file').waitFor();
    assert.equal(await box.locator('tr.add').count(), 30);
  });
  // It leads out of the session's directory.
  await shows('link.txt', async () => {
    await box.getByText('What it replaces is not known.').waitFor();
    assert.equal(await box.locator('tr.del').count(), 0);
  });
  assert.deepEqual(page.problems, []);
});

test('allow once allows this request only, and the focus returns', async (t) => {
  const { page, file } = await start(t, [write('a.txt'), write('b.txt')]);
  await h.visit(page, '/approvals');
  await review(page);
  await dialog(page).getByRole('button', { name: 'Allow once' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  await h.until(() => existsSync(file('a.txt')), 'the file');
  await page.locator('.request', { hasText: 'b.txt' }).waitFor();
  assert.ok(!existsSync(file('b.txt')));
  // The next request is at hand: the focus is on a button of the list, or on the heading.
  const focus = await page.evaluate(() => document.activeElement.closest('.request, h1') !== null);
  assert.ok(focus, await page.evaluate(() => document.activeElement.outerHTML));
  const decided = page.locator('.decided tbody tr').first();
  await decided.getByText('allowed').waitFor();
  for (const text of ['a.txt', 'browser', 'scripted']) assert.ok((await decided.textContent()).includes(text));
  assert.match(await decided.locator('time').getAttribute('title'), /20\d\d/);
  assert.deepEqual(page.problems, []);
});

test('allow always covers the same action for the rest of the session', async (t) => {
  const { page, daemon, session, file } = await start(t, [write('a.txt'), write('a.txt'), write('b.txt')]);
  const [approval] = await h.pending(daemon);
  await h.visit(page, '/approvals');
  await review(page);
  assert.ok((await dialog(page).locator('.always').textContent()).includes(approval.always), 'it says what that covers');
  await dialog(page).getByRole('button', { name: 'Allow always' }).click();
  // The second one is not asked for; the third is of another file.
  await page.locator('.request', { hasText: 'b.txt' }).waitFor();
  assert.ok(existsSync(file('a.txt')));
  await review(page);
  await dialog(page).getByRole('button', { name: 'Deny' }).click();
  await h.settled(daemon, session.id);
  assert.ok(!existsSync(file('b.txt')));
});

test('deny gives the agent the reason', async (t) => {
  const { page, daemon, session, file } = await start(t, [write('a.txt')]);
  await h.visit(page, `/s/${session.id}`);
  await page.locator('.banner').getByText('Needs approval').waitFor();
  await review(page);
  await dialog(page).getByLabel('Reason for the agent').fill('Use <b>another</b> file');
  await dialog(page).getByRole('button', { name: 'Deny' }).click();
  await h.settled(daemon, session.id);
  assert.ok(!existsSync(file('a.txt')));
  const row = page.locator('.row.tool', { hasText: 'a.txt' });
  await row.getByText('denied').first().waitFor();
  await row.locator('summary').click();
  await row.locator('.decision', { hasText: 'Use <b>another</b> file' }).waitFor();
  await h.visit(page, '/approvals');
  const decided = page.locator('.decided tbody tr').first();
  await decided.getByText('Use <b>another</b> file').waitFor();
  await decided.getByText('denied').waitFor();
  await badge(page).waitFor({ state: 'hidden' });
  assert.deepEqual(page.problems, []);
});

test('no stray key answers a request', async (t) => {
  const { page, daemon } = await start(t, [write('a.txt')]);
  const [approval] = await h.pending(daemon);
  const posts = [];
  page.on('request', (request) => request.method() === 'POST' && posts.push(request.url()));
  await h.visit(page, '/approvals');
  await page.getByRole('button', { name: /^Review/ }).focus();
  const keys = [...'yYaAnNdDo1j', 'Space', 'Tab', 'ArrowDown', 'Delete', 'Control+Enter'];
  for (const key of keys.filter((it) => it !== 'Space')) await page.keyboard.press(key);
  await page.getByRole('button', { name: /^Review/ }).click();
  await dialog(page).waitFor();
  // Typed ahead, before one could read it: the focus is not on a button, and no button works yet.
  await page.keyboard.press('Enter');
  for (const key of keys.filter((it) => it !== 'Tab')) await page.keyboard.press(key);
  await dialog(page).locator('button[aria-disabled=false]').first().waitFor();
  await page.keyboard.press('Enter');
  for (const key of keys.filter((it) => it !== 'Tab')) await page.keyboard.press(key);
  assert.deepEqual(posts, []);
  assert.equal((await daemon.api.get(`/v1/approvals/${approval.id}`)).state, 'pending');
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  assert.equal((await daemon.api.get(`/v1/approvals/${approval.id}`)).state, 'pending');
});

test('buttons of a dialog that has just appeared do nothing', async (t) => {
  const { page, daemon } = await start(t, [write('a.txt')]);
  const [approval] = await h.pending(daemon);
  await h.visit(page, '/approvals');
  await page.getByRole('button', { name: /^Review/ }).waitFor();
  const posts = [];
  page.on('request', (request) => request.method() === 'POST' && posts.push(request.url()));
  // In one task, so that no time passes in between.
  const armed = await page.evaluate(() => {
    document.querySelector('.request button').click();
    const button = [...document.querySelectorAll('dialog button')].find((it) => it.textContent === 'Allow once');
    button.click();
    return button.getAttribute('aria-disabled');
  });
  assert.equal(armed, 'true');
  await dialog(page).locator('button[aria-disabled=false]').first().waitFor();
  assert.deepEqual(posts, []);
  assert.equal((await daemon.api.get(`/v1/approvals/${approval.id}`)).state, 'pending');
});

test('a request opens again at once after it was left', async (t) => {
  const { page, daemon } = await start(t, [write('a.txt')]);
  await h.visit(page, '/approvals');
  await page.getByRole('button', { name: /^Review/ }).waitFor();
  // In one task: the event of the first dialog's end comes later.
  await page.evaluate(() => {
    const open = () => document.querySelector('.request button').click();
    open();
    document.querySelector('dialog[open]').close();
    open();
  });
  await dialog(page).locator('button[aria-disabled=false]').first().waitFor();
  await h.until(async () => (await page.locator('dialog').count()) === 1, 'the end of the first dialog');
  // It still hears of an answer from elsewhere.
  const [approval] = await h.pending(daemon);
  await daemon.api.post(`/v1/approvals/${approval.id}`, { decision: 'deny' });
  await dialog(page).getByText(/Already denied/).waitFor();
});

test('a browser approves only with the approval code', async (t) => {
  const { page, daemon, session, file } = await start(t, [write('a.txt')], { approve: false });
  await h.visit(page, '/approvals');
  await review(page);
  await dialog(page).getByRole('button', { name: 'Allow once' }).click();
  const code = dialog(page).getByLabel('Approval code');
  assert.ok(await code.evaluate((node) => node === document.activeElement), 'it asks for the code');
  await code.fill('wrong-code');
  await dialog(page).getByRole('button', { name: 'Unlock' }).click();
  await dialog(page).getByRole('alert').waitFor();
  assert.equal(await code.inputValue(), '');
  await code.fill(await daemon.approvalCode());
  await page.keyboard.press('Enter');
  await code.waitFor({ state: 'detached' });
  assert.ok(!existsSync(file('a.txt')), 'the code alone approves nothing');
  await dialog(page).getByRole('button', { name: 'Allow once' }).click();
  await h.settled(daemon, session.id);
  assert.ok(existsSync(file('a.txt')));
});

test('a logout elsewhere closes the dialog', async (t) => {
  const { page } = await start(t, [write('a.txt')]);
  await h.visit(page, '/approvals');
  await review(page);
  assert.equal((await h.call(page, 'DELETE', '/v1/browser-session')).status, 204);
  await page.getByText('This browser is not logged in').waitFor();
  assert.equal(await page.locator('dialog').count(), 0);
  await page.locator('main').getByRole('button', { name: 'Copy' }).click(); // nothing covers the page
});

test('an answer from elsewhere ends the dialog', async (t) => {
  const { page, daemon } = await start(t, [write('a.txt')]);
  const [approval] = await h.pending(daemon);
  await h.visit(page, '/approvals');
  await review(page);
  await daemon.api.post(`/v1/approvals/${approval.id}`, { decision: 'deny' });
  await dialog(page).getByText(/Already denied by process/).waitFor();
  assert.equal(await dialog(page).getByRole('button', { name: 'Allow once' }).getAttribute('aria-disabled'), 'true');
});
