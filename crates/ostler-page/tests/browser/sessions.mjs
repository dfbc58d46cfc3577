// The table of sessions and the form for a new one, as a user works with them.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import * as h from './harness.mjs';

const USAGE = { input: 1200, cache_read: 800, cache_write: 0, output: 40, cost_usd: 0.25, cost_source: 'reported' };

/** The row of a session, by its title. */
const row = (page, title) => page.locator('.sessions tbody tr', { hasText: title });

/** The titles in the table, from the top. */
const titles = (page) => page.locator('.sessions td.main a').allTextContents();

test('the table follows the sessions without a reload', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await page.getByText('No sessions yet.').waitFor();
  const first = await h.playedSession(daemon, [h.text('Done.'), h.turnEnded({ usage: USAGE })], {
    prompt: 'Fix the parser\nIt loops.',
  });
  const fixed = row(page, 'Fix the parser');
  await fixed.getByText('Idle').waitFor();
  await fixed.getByText('$0.25').waitFor();
  assert.ok(!(await fixed.textContent()).includes('It loops.'), 'the title is one line');
  for (const text of ['mock', '2.0k', '$0.25', path.basename(daemon.work)]) {
    assert.ok((await fixed.textContent()).includes(text), `${text}: ${await fixed.textContent()}`);
  }
  assert.equal(await fixed.locator('.turns').textContent(), '1');
  assert.equal(await fixed.locator('.cost span').getAttribute('title'), 'Cost reported by the agent');
  // A relative time has the absolute one as its title.
  assert.match(await fixed.locator('time').getAttribute('title'), /20\d\d/);
  // Whatever waits for approval is first.
  await h.askingSession(daemon, [{ tool: 'write_file', input: { path: 'a', content: '' } }], { prompt: 'Write a file' });
  await h.playedSession(daemon, [h.text('Hi.')], { prompt: 'Say hello' });
  await row(page, 'Write a file').getByText('Needs approval').waitFor();
  await row(page, 'Say hello').waitFor();
  assert.deepEqual(await titles(page), ['Write a file', 'Say hello', 'Fix the parser']);
  await page.getByText('3 sessions · 1 waiting for approval').waitFor();
  await daemon.api.post(`/v1/sessions/${first.id}/stop`);
  await fixed.getByText('Stopped').or(fixed.getByText('Done')).first().waitFor();
  assert.deepEqual(page.problems, []);
});

test('filters by state, agent, directory, label and text', async (t) => {
  const daemon = await h.startDaemon(t);
  const other = path.join(daemon.dir, 'other-project');
  mkdirSync(other);
  await h.playedSession(daemon, [h.text('x')], { prompt: 'Alpha', labels: { team: 'red' } });
  await h.playedSession(daemon, [h.text('x')], { prompt: 'Beta', dir: other });
  const ended = await h.playedSession(daemon, [h.text('x')], { prompt: 'Gamma', once: true });
  await h.until(async () => (await daemon.api.get(`/v1/sessions/${ended.id}`)).state === 'ended', 'its end');
  await h.askingSession(daemon, [{ tool: 'write_file', input: { path: 'a', content: '' } }], { prompt: 'Delta' });
  await h.pending(daemon);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  const shows = async (...wanted) => {
    await h.until(async () => (await titles(page)).join() === wanted.join(), wanted.join());
  };
  await shows('Delta', 'Gamma', 'Beta', 'Alpha');
  const text = page.getByLabel('Filter sessions');
  await text.fill('gamm');
  await shows('Gamma');
  await text.fill('nothing like this');
  await page.getByText('No session matches.').waitFor();
  await text.fill('');
  await page.getByLabel('State').selectOption('Ended');
  await shows('Gamma');
  await page.getByLabel('State').selectOption('Needs approval');
  await shows('Delta');
  await page.getByLabel('State').selectOption('Not ended');
  await shows('Delta', 'Beta', 'Alpha');
  await page.getByLabel('State').selectOption('All sessions');
  await page.getByLabel('Agent').selectOption('scripted');
  await shows('Delta');
  await page.getByLabel('Agent').selectOption('All agents');
  await page.getByLabel('Directory').fill('other-proj');
  await shows('Beta');
  await page.getByLabel('Directory').fill(other);
  await shows('Beta');
  await page.getByLabel('Directory').fill('');
  await page.getByLabel('Label').fill('team=red');
  await shows('Alpha');
  await page.getByLabel('Label').fill('');
  await shows('Delta', 'Gamma', 'Beta', 'Alpha');
  assert.deepEqual(page.problems, []);
});

test('j, k, Enter, / and ? work, and the focus returns from the help', async (t) => {
  const daemon = await h.startDaemon(t);
  for (const prompt of ['one', 'two', 'three']) await h.playedSession(daemon, [h.text('x')], { prompt });
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await row(page, 'one').waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press('j');
  assert.equal(await focused(), 'three');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('j'); // the last row: it stays
  assert.equal(await focused(), 'one');
  await page.keyboard.press('k');
  assert.equal(await focused(), 'two');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
  await page.keyboard.press('j'); // nothing happens behind a dialog
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await focused(), 'two');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
  await page.keyboard.type('j/?'); // in a field, keys are text
  assert.equal(await page.getByLabel('Filter sessions').inputValue(), 'j/?');
  await page.getByLabel('Filter sessions').fill('two');
  await h.until(async () => (await titles(page)).join() === 'two', 'the row'); // and not none, as for the text before
  await page.keyboard.press('Escape');
  // It leaves the field, and does not empty it.
  assert.equal(await page.getByLabel('Filter sessions').inputValue(), 'two');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'two' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  for (const [key, name] of [['a', 'Approvals'], ['f', 'Search'], ['u', 'Usage'], ['n', 'New session'], ['s', 'Sessions']]) {
    await page.evaluate(() => document.activeElement.blur());
    await h.goTo(page, key, name === 'Sessions' ? '/' : `/${name.split(' ')[0].toLowerCase()}`);
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
  }
  assert.deepEqual(page.problems, []);
});

test('keys that follow at once belong to the next view', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await h.visit(page, '/usage');
  await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
  // In one task, as when the page is busy.
  const focused = (...keys) => page.evaluate((keys) => {
    for (const key of keys) document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    return document.activeElement.name || document.activeElement.id;
  }, keys);
  assert.equal(await focused('/'), 'filter');
  await page.evaluate(() => document.activeElement.blur());
  assert.equal(await focused('g', 'n'), 'prompt');
  await page.getByRole('heading', { level: 1, name: 'New session' }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  assert.equal(await focused('g', 's', '/'), 'filter');
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  assert.deepEqual(page.problems, []);
});

test('the form starts a session, and its command line does the same', async (t) => {
  const daemon = await h.startDaemon(t);
  h.fakeClaude(daemon, 'read-user\ninit\ntext Hello.\nresult Hello.\nread-until-eof');
  // It records how it is started.
  const program = path.join(daemon.bin, 'claude');
  const calls = path.join(daemon.dir, 'calls');
  writeFileSync(program, readFileSync(program, 'utf8').replace('exec ', `printf '%q ' "$@" >> ${calls}; echo >> ${calls}\nexec `));
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await page.getByRole('link', { name: 'New session' }).click();
  await h.until(() => page.evaluate(() => document.activeElement.name === 'prompt'), 'the focus on the task');
  const prompt = "Say 'hello' to $USER; done";
  await page.getByLabel('Task').fill(prompt);
  const agents = page.getByLabel('Agent', { exact: true });
  await agents.locator('option[value=claude]').waitFor({ state: 'attached' });
  assert.equal(await agents.locator('option[value=claude]').isDisabled(), false);
  assert.equal(await agents.locator('option[value=codex]').isDisabled(), true);
  await page.getByText(/agents? not ready/).waitFor();
  await agents.selectOption('claude');
  // The models that the agent offers.
  const { agents: offered } = await daemon.api.get('/v1/agents');
  const { models } = offered.find((agent) => agent.name === 'claude');
  assert.ok(models.length > 0, 'models');
  assert.deepEqual(await page.locator('#models option').evaluateAll((nodes) => nodes.map((node) => node.value)), models);
  await page.getByLabel('Directory').fill(daemon.work);
  await page.getByLabel('Permissions').selectOption('read-only');
  await page.getByText('Limits, name and labels').click();
  await page.getByLabel('Time per turn').fill('10m');
  await page.getByLabel('Agent steps').fill('7');
  await page.getByLabel('Cost, US dollars').fill('2.5');
  await page.getByLabel('Model', { exact: true }).fill('sonnet');
  await page.getByLabel('Name', { exact: true }).fill('greeting');
  await page.getByLabel('Labels').fill('team=red kind=test');
  const shown = await page.getByLabel('Equivalent command').textContent();
  assert.ok(shown.startsWith('ostler run --detach --agent claude'), shown);
  await page.getByRole('button', { name: 'Start session' }).click();
  await page.getByText('Hello.').waitFor();
  const list = async () => (await daemon.api.get('/v1/sessions?all=true')).sessions;
  const [byForm] = await list();
  // A shell understands the line, and it starts the same session.
  await daemon.shell(shown);
  const both = await h.until(async () => {
    const sessions = await list();
    return sessions.length === 2 && sessions;
  }, 'the second session');
  const facts = ({ agent, title, dir, labels, name }) => ({ agent, title, dir, labels, name });
  assert.deepEqual(facts(both.find((it) => it.id !== byForm.id)), facts(byForm));
  assert.deepEqual(byForm.labels, { team: 'red', kind: 'test' });
  // With the same model, permissions and limits.
  await h.settled(daemon, both.find((it) => it.id !== byForm.id).id);
  const lines = readFileSync(calls, 'utf8').split('\n').filter((line) => line.includes('sonnet'));
  const [first, second] = lines.map((line) => line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}|\/[^ ]*/g, '…'));
  assert.equal(second, first);
  for (const part of ['sonnet', '7']) assert.ok(first.includes(part), first);
  // A session that waits for messages is a request to the daemon.
  await h.visit(page, '/new');
  await page.getByLabel('Directory').fill(daemon.work);
  await page.getByLabel('Agent', { exact: true }).selectOption('claude');
  const request = await page.getByLabel('Equivalent command').textContent();
  assert.match(request, /^curl --unix-socket/);
  const text = await daemon.shell(request.replace('curl ', 'curl -s '));
  const created = JSON.parse(text);
  assert.equal(created.agent, 'claude', text);
  assert.deepEqual(page.problems, []);
});

test('a form that the daemon rejects says why and stays as it is', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await h.visit(page, '/new');
  await page.getByLabel('Task').fill('go');
  await page.getByLabel('Directory').fill('/does/not/exist');
  await page.getByRole('button', { name: 'Start session' }).click();
  await page.getByRole('alert').waitFor();
  assert.ok((await page.getByRole('alert').textContent()).includes('/does/not/exist'));
  assert.equal(await page.getByLabel('Task').inputValue(), 'go');
});
