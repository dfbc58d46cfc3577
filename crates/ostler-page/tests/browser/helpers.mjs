// The harness itself: the sessions that it creates have what it says.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import * as h from './harness.mjs';

/** Reads the stored events of a session. */
async function events(daemon, id) {
  await daemon.api.post(`/v1/sessions/${id}/stop`);
  await h.until(async () => (await daemon.api.get(`/v1/sessions/${id}`)).state === 'ended', 'its end');
  const { body } = await daemon.api.raw('GET', `/v1/sessions/${id}/events?since=0`);
  return [...body.matchAll(/^data: ?(.*)$/gm)].map(([, data]) => JSON.parse(data));
}

test('a played session has its events', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, [
    h.thought('Let me look.'),
    h.text('Half a ', { delta: true, message: 'm' }),
    h.text('sentence.', { delta: true, message: 'm' }),
    ...h.toolCall('Bash', { command: 'ls' }, { output: 'README.md' }),
    ...h.editCall('src/a.rs', 'old', 'new'),
    h.text('Done.'),
  ]);
  assert.equal(session.turns, 1);
  const kinds = (await events(daemon, session.id)).map((event) => event.type);
  for (const kind of ['text', 'tool_call', 'tool_result', 'turn_ended']) assert.ok(kinds.includes(kind), kinds.join());
  assert.equal(kinds.filter((kind) => kind === 'tool_call').length, 2);
});

test('an asking session does what is allowed, and nothing else', async (t) => {
  const daemon = await h.startDaemon(t);
  const write = (name) => ({ tool: 'write_file', input: { path: name, content: 'a "quote"\n' } });
  const session = await h.askingSession(daemon, [write('yes.txt'), write('no.txt')]);
  const [first] = await h.pending(daemon);
  assert.equal(first.agent, 'scripted');
  assert.ok(first.summary.includes('yes.txt'), first.summary);
  await daemon.api.post(`/v1/approvals/${first.id}`, { decision: 'allow' });
  const second = await h.until(async () => {
    const { approvals } = await daemon.api.get('/v1/approvals?state=pending');
    return approvals.find((it) => it.id !== first.id);
  });
  await daemon.api.post(`/v1/approvals/${second.id}`, { decision: 'deny', message: 'no' });
  await h.settled(daemon, session.id);
  assert.equal(readFileSync(path.join(daemon.work, 'yes.txt'), 'utf8'), 'a "quote"\n');
  assert.ok(!existsSync(path.join(daemon.work, 'no.txt')));
});

test('the fake agent plays a script as claude', async (t) => {
  const daemon = await h.startDaemon(t);
  h.fakeClaude(daemon, 'read-user\ninit\ntext hi\nresult hi\nread-until-eof');
  const session = await h.newSession(daemon, { agent: 'claude', prompt: 'go' });
  assert.equal((await h.settled(daemon, session.id)).agent, 'claude');
});

test('a long session has as many events as requested', () => {
  assert.equal(h.longEvents(1000).length, 1000);
});
