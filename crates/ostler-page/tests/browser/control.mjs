// Sending messages to a session and controlling it, with the buttons of the page.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as h from './harness.mjs';

/** A script that hangs when it is asked for something slow, and otherwise answers. */
const SCRIPT = `
[[reply]]
when = { prompt = "slow" }
text = "Working on it. "
hang = true

[[reply]]
repeat = true
text = "You said: {prompt}"
`;

/** Opens a page at a session of the script, which has answered a first message. */
async function opened(t, fields = {}) {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, SCRIPT, { prompt: 'first', ...fields });
  await h.settled(daemon, session.id);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id, approve: true });
  await page.getByText('You said: first').waitFor();
  return { daemon, page, session, button: (name) => page.locator('.actions').getByRole('button', { name, exact: true }) };
}

async function send(page, text) {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

test('a message is sent, and its reply appears', async (t) => {
  const { page } = await opened(t);
  await page.keyboard.press('i');
  await page.keyboard.type('second\nline');
  await page.keyboard.press('Control+Enter');
  await page.getByText('You said: second').waitFor();
  assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), '');
  assert.equal(await page.locator('.row.prompt').count(), 2);
  assert.deepEqual(page.problems, []);
});

test('a message during a turn waits for its end, or goes into it', async (t) => {
  const { page, button, daemon, session } = await opened(t);
  await send(page, 'something slow');
  await page.getByText('Working on it.').waitFor();
  await page.locator('.chip', { hasText: 'Working' }).waitFor();
  await page.getByLabel('When').selectOption('After this turn');
  await send(page, 'afterwards');
  await page.getByLabel('When').selectOption('Into this turn');
  await send(page, 'steered words');
  await page.locator('.row.notice', { hasText: 'steered words' }).waitFor();
  assert.equal(await page.locator('.row.prompt', { hasText: 'afterwards' }).count(), 0);
  await button('Interrupt').click();
  await page.locator('.row.turn_ended', { hasText: 'interrupted' }).waitFor();
  await page.getByText('You said: afterwards').waitFor();
  await h.settled(daemon, session.id);
  assert.deepEqual(page.problems, []);
});

test('a paused session holds messages back until it is resumed', async (t) => {
  const { page, button, daemon, session } = await opened(t);
  await button('Pause').click();
  await page.getByText('Paused: messages wait until you resume.').waitFor();
  const accepted = page.waitForResponse('**/messages');
  await send(page, 'held back');
  assert.equal((await accepted).status(), 202);
  const { state, turns } = await daemon.api.get(`/v1/sessions/${session.id}`);
  assert.deepEqual([state, turns], ['paused', 1], 'it has the message, and no turn');
  await button('Resume').click();
  await page.getByText('You said: held back').waitFor();
  await page.locator('.row.state', { hasText: 'Paused' }).waitFor();
  await page.locator('.row.state', { hasText: 'Resumed' }).waitFor();
  assert.deepEqual(page.problems, []);
});

test('a stopped session can be resumed, and forked', async (t) => {
  const { page, button, daemon, session } = await opened(t);
  await button('Stop').click();
  await page.locator('.row.ended').waitFor();
  await page.locator('.composer').waitFor({ state: 'hidden' });
  await button('Resume').waitFor();
  await button('Resume').click();
  await page.waitForFunction((id) => location.hash.startsWith('#/s/') && !location.hash.includes(id), session.id);
  const resumed = await page.evaluate(() => location.hash.slice(4));
  assert.equal((await daemon.api.get(`/v1/sessions/${resumed}`)).continues, session.id);
  await page.locator('aside').getByText('Continues').waitFor();
  await send(page, 'still there?');
  await page.getByText('You said: still there?').waitFor();
  await button('Fork').click();
  await page.waitForFunction((id) => !location.hash.includes(id), resumed);
  await page.getByLabel('Message', { exact: true }).waitFor();
  const forked = await page.evaluate(() => location.hash.slice(4));
  assert.ok(![session.id, resumed].includes(forked));
  assert.deepEqual(page.problems, []);
});

test('a request that fails says what happened, and what to do', async (t) => {
  const { page, daemon, session } = await opened(t);
  await page.route('**/messages', (route) =>
    route.fulfill({ status: 409, contentType: 'application/problem+json', body: JSON.stringify({ detail: 'It is <b>busy</b>', hint: 'Wait for it.' }) }));
  await send(page, 'this fails');
  await page.getByRole('alert').getByText('It is <b>busy</b>').waitFor();
  await page.getByRole('alert').getByText('Wait for it.').waitFor();
  assert.equal(await page.getByLabel('Message', { exact: true }).inputValue(), 'this fails', 'nothing is lost');
  await page.unroute('**/messages');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('You said: this fails').waitFor();
  await daemon.api.delete(`/v1/sessions/${session.id}`);
  await page.reload();
  await page.getByRole('alert').waitFor();
});

test('the fake agent as claude streams into the page', async (t) => {
  const daemon = await h.startDaemon(t);
  h.fakeClaude(daemon, [
    'read-user', 'init', 'thinking Let me see.', 'tool-use t1 Bash {"command":"ls"}', 'tool-result t1 README.md',
    'delta Hel', 'delta lo **you**', 'text Hello **you**', 'result Hello', 'read-until-eof',
  ].join('\n'));
  const page = await h.newPage(t);
  await h.login(page, daemon);
  const session = await h.newSession(daemon, { agent: 'claude', prompt: 'go' });
  await h.visit(page, `/s/${session.id}`);
  await page.locator('.row.reply strong', { hasText: 'you' }).waitFor();
  await page.locator('.row.tool', { hasText: 'ls' }).waitFor();
  assert.equal(await page.locator('.row.reply').count(), 1);
  assert.deepEqual(page.problems, []);
});
