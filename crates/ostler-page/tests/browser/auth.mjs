// Login, logout, the approval code and the headers of the page, in a real browser.

import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import { test } from 'node:test';

import * as h from './harness.mjs';

test('a link logs the browser in and disappears from the address', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon);
  assert.match(origin, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.ok(!page.url().includes('login'), page.url());
  const state = await h.browserSession(page);
  assert.deepEqual([state.authenticated, state.can_prompt, state.can_approve], [true, true, false]);
  assert.equal((await h.call(page, 'GET', '/v1/sessions')).status, 200);
  // It survives a reload, and a second tab needs no login.
  await page.reload();
  assert.equal((await h.browserSession(page)).can_prompt, true);
  const tab = await h.newTab(page);
  await tab.goto(origin);
  assert.equal((await h.browserSession(tab)).can_prompt, true);
  assert.deepEqual(page.problems, []);
  assert.ok(!daemon.stderr.includes('login='), daemon.stderr);
});

test('without a login the page shows nothing of a session', async (t) => {
  const daemon = await h.startDaemon(t);
  await h.playedSession(daemon, [h.text('a secret reply')]);
  const page = await h.newPage(t);
  await page.goto(new URL(await daemon.link()).origin);
  assert.equal((await h.browserSession(page)).authenticated, false);
  assert.equal((await h.call(page, 'GET', '/v1/sessions')).status, 401);
  assert.ok(!(await page.content()).includes('a secret reply'));
});

test('a link that was used before logs the first browser out', async (t) => {
  const daemon = await h.startDaemon(t);
  const link = await daemon.link();
  const [first, second] = [await h.newPage(t), await h.newPage(t)];
  await first.goto(link);
  await h.until(async () => (await h.browserSession(first)).authenticated, 'the login');
  const refused = second.waitForResponse((it) => it.request().method() === 'POST');
  await second.goto(link);
  assert.equal((await refused).status(), 401);
  assert.equal((await h.browserSession(second)).authenticated, false);
  assert.equal((await h.browserSession(first)).authenticated, false);
});

test('scripts cannot read the cookie, and it is sent to this site only', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  assert.equal(await page.evaluate(() => document.cookie), '');
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/']);
  assert.equal(cookie.expires, -1);
});

test('logout ends the session of all tabs, and their streams', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon);
  const tab = await h.newTab(page);
  await tab.goto(origin);
  const ended = tab.evaluate(async () => {
    const response = await fetch('/v1/events');
    const reader = response.body.getReader();
    window.streaming = true;
    while (!(await reader.read()).done);
    return response.status;
  });
  await tab.waitForFunction(() => window.streaming);
  assert.equal((await h.call(page, 'DELETE', '/v1/browser-session')).status, 204);
  assert.equal(await ended, 200);
  assert.equal((await h.call(tab, 'GET', '/v1/sessions')).status, 401);
  assert.deepEqual(await page.context().cookies(), []);
});

test('only the approval code lets a browser approve', async (t) => {
  const daemon = await h.startDaemon(t);
  await h.askingSession(daemon, [{ tool: 'write_file', input: { path: 'a.txt', content: 'x\n' } }]);
  const [approval] = await h.pending(daemon);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  const answer = () => h.call(page, 'POST', `/v1/approvals/${approval.id}`, { decision: 'allow' });
  assert.equal((await answer()).status, 403);
  const wrong = await h.call(page, 'POST', '/v1/browser-session/approve', { code: 'aaaa-aaaa-aaaa' });
  assert.equal(wrong.status, 403);
  const code = await daemon.approvalCode();
  assert.equal((await h.call(page, 'POST', '/v1/browser-session/approve', { code })).status, 204);
  assert.equal((await h.browserSession(page)).can_approve, true);
  const allowed = await answer();
  assert.equal(allowed.status, 200, JSON.stringify(allowed.body));
  assert.equal(allowed.body.decided_by, 'browser');
  assert.deepEqual(await h.pending(daemon, 0), []);
});

test('five wrong approval codes log the browser out', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  const enter = () => h.call(page, 'POST', '/v1/browser-session/approve', { code: 'wrong' });
  const statuses = [];
  for (let n = 0; n < 5; n += 1) statuses.push((await enter()).status);
  assert.deepEqual(statuses, [403, 403, 403, 403, 401]);
  assert.equal((await h.browserSession(page)).authenticated, false);
});

test('the policy of the page stops inline scripts, foreign requests and unsafe HTML', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon);
  const policy = (await page.goto(origin)).headers()['content-security-policy'];
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", 'trusted-types ostler']) {
    assert.ok(policy.includes(part), policy);
  }
  const tried = await page.evaluate(async () => {
    const results = {};
    const attempt = (name, run) => {
      try {
        run();
        results[name] = 'allowed';
      } catch (error) {
        results[name] = error.name;
      }
    };
    attempt('html', () => (document.createElement('p').innerHTML = '<b>x</b>'));
    attempt('string', () => setTimeout('window.inline = 1'));
    attempt('policy', () => trustedTypes.createPolicy('another', {}));
    const script = document.createElement('script');
    attempt('script', () => (script.textContent = 'window.inline = 1'));
    const element = document.createElement('p');
    document.body.append(element);
    attempt('handler', () => element.setAttribute('onclick', 'window.inline = 1'));
    element.click();
    await fetch('http://127.0.0.1:9/').catch(() => (results.fetch = 'refused'));
    return { ...results, inline: window.inline ?? null };
  });
  assert.equal(tried.html, 'TypeError');
  assert.equal(tried.string, 'TypeError');
  assert.equal(tried.policy, 'TypeError');
  assert.equal(tried.script, 'TypeError');
  assert.equal(tried.handler, 'TypeError');
  assert.deepEqual([tried.fetch, tried.inline], ['refused', null]);
});

// Cookies ignore ports: a page of another server on this address sends ours along.
test('a page on another port of this address can do nothing with the cookie', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon, { approve: true });
  let cookies;
  const server = http.createServer((request, response) => {
    cookies = request.headers.cookie ?? cookies;
    response.setHeader('Content-Type', 'text/html');
    response.end('<!doctype html><title>A server of an agent</title>');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const evil = await h.newTab(page);
  await evil.goto(`http://127.0.0.1:${server.address().port}/`);
  assert.match(cookies, /^ostler_\d+=/, 'the browser sends the cookie to this server');
  const session = JSON.stringify({ agent: 'mock', dir: daemon.work });
  const results = await evil.evaluate(async ([origin, body]) => {
    const attempts = [
      fetch(`${origin}/v1/sessions`, { credentials: 'include' }),
      fetch(`${origin}/v1/sessions`, { credentials: 'include', mode: 'no-cors', method: 'POST', body }),
      fetch(`${origin}/v1/browser-session`, { credentials: 'include', method: 'DELETE' }),
    ];
    const ended = await Promise.allSettled(attempts);
    return ended.map((it) => (it.status === 'rejected' ? 'rejected' : it.value.type));
  }, [origin, session]);
  assert.deepEqual(results, ['rejected', 'rejected', 'rejected']);
  assert.deepEqual((await daemon.api.get('/v1/sessions?all=true')).sessions, []);
  assert.equal((await h.browserSession(page)).authenticated, true);
  // What the server itself can do with it: read, but neither write nor approve.
  const forge = (method, path) =>
    new Promise((resolve, reject) => {
      const headers = { Cookie: cookies, Origin: origin, 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'application/json' };
      const { hostname, port } = new URL(origin);
      const request = http.request({ host: hostname, port, method, path, headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      request.on('error', reject);
      request.end('{}');
    });
  assert.equal(await forge('POST', '/v1/sessions'), 403);
  assert.equal(await forge('POST', '/v1/approvals/0123'), 403);
  assert.equal(await forge('POST', '/v1/browser-links'), 403);
});

test('no other page can embed this one', async (t) => {
  const daemon = await h.startDaemon(t);
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon);
  const other = await h.newTab(page);
  const ended = new Promise((done) => {
    for (const event of ['requestfailed', 'requestfinished']) other.on(event, done);
  });
  await other.setContent(`<iframe src="${origin}/"></iframe>`);
  const request = await ended;
  assert.equal(request.url(), `${origin}/`);
  assert.match(request.failure()?.errorText ?? 'it was loaded', /BLOCKED_BY_RESPONSE/);
});

test('the page has no accessibility violations', async (t) => {
  const daemon = await h.startDaemon(t);
  for (const theme of ['light', 'dark']) {
    const page = await h.newPage(t, { theme });
    await h.login(page, daemon);
    await h.axe(page);
  }
});
