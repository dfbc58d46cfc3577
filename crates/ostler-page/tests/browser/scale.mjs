// Long sessions, many tabs, bursts and lost connections. Nothing here looks at a clock: the figures
// are in docs/performance.md.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as h from './harness.mjs';

/** Two frames later, what was asked for is drawn. */
const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

test('a session of 100,000 events is read in pages, with few elements', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, h.longEvents(100_000));
  const page = await h.newPage(t);
  const transcripts = [];
  page.on('request', (request) => request.url().includes('/transcript') && transcripts.push(request.url()));
  await h.login(page, daemon, { session: session.id });
  await page.locator('.row.turn_ended').waitFor(); // a running session opens at its end
  assert.ok(transcripts.length <= 4, `${transcripts.length} pages to open it`);
  const count = () => page.evaluate(() => document.querySelectorAll('main *').length);
  assert.ok((await count()) < 6000, `${await count()} elements`);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(height > 100_000, `it is ${height} px high`);
  // Places all over the session, in the order of a reader who drags the bar.
  for (const part of [0, 0.5, 0.25, 0.9, 0.1, 1]) {
    await page.evaluate((part) => scrollTo({ top: document.documentElement.scrollHeight * part, behavior: 'instant' }), part);
    await h.until(async () => {
      await drawn(page);
      return page.evaluate(() => {
        const rows = [...document.querySelectorAll('.row')].map((row) => row.getBoundingClientRect());
        return rows.some((box) => box.bottom > 200 && box.top < innerHeight - 100);
      });
    }, `rows at ${part}`);
    assert.ok((await count()) < 6000, `${await count()} elements at ${part}`);
  }
  // Slowly, over many screens: the numbers go up, without a hole.
  await page.evaluate(() => scrollTo({ top: document.documentElement.scrollHeight / 3, behavior: 'instant' }));
  let last = 0;
  for (let n = 0; n < 15; n += 1) {
    await page.mouse.wheel(0, 700);
    const seen = await h.until(async () => {
      await drawn(page);
      const seqs = await page.evaluate(() => [...document.querySelectorAll('.row[data-seq]')]
        .filter((row) => row.getBoundingClientRect().bottom > 200).map((row) => Number(row.dataset.seq)));
      return seqs.length > 0 && seqs;
    }, 'rows');
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
    assert.ok(seen[0] >= last, `${seen[0]} after ${last}`);
    last = seen[0];
  }
  assert.ok(last > 0);
  // A link to one event opens there.
  await h.visit(page, `/s/${session.id}/50000`);
  await h.until(async () => {
    const seqs = await page.evaluate(() => [...document.querySelectorAll('.row[data-seq]')]
      .filter((row) => row.getBoundingClientRect().top > 0 && row.getBoundingClientRect().top < innerHeight)
      .map((row) => Number(row.dataset.seq)));
    return seqs.some((seq) => Math.abs(seq - 50_000) < 20);
  }, 'event 50,000');
  await h.visit(page, `/s/${session.id}/events`);
  await page.locator('.row.event').first().waitFor();
  assert.ok((await count()) < 6000);
  assert.deepEqual(page.problems, []);
});

test('eight tabs share one event stream, and another tab takes it over', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, '[[reply]]\nrepeat = true\ntext = "You said: {prompt}"\n', { prompt: 'first' });
  await h.settled(daemon, session.id);
  const page = await h.newPage(t);
  const requests = new Map(); // of the stream, and their tabs
  page.context().on('request', (request) => request.url().includes('/v1/events') && requests.set(request, request.frame().page()));
  page.context().on('requestfailed', (request) => requests.delete(request));
  page.context().on('requestfinished', (request) => requests.delete(request));
  const streams = () => [...requests.values()].filter((tab) => !tab.isClosed());
  const origin = await h.login(page, daemon, { session: session.id });
  const tabs = [page];
  while (tabs.length < 8) tabs.push(await h.newTab(page));
  for (const tab of tabs.slice(1)) await tab.goto(`${origin}/#/s/${session.id}`);
  for (const tab of tabs) await h.live(tab);
  await h.until(() => streams().length === 1, 'one stream');
  const say = async (text, open) => {
    await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text });
    for (const tab of open) {
      await tab.bringToFront();
      await tab.getByText(`You said: ${text}`).waitFor();
    }
  };
  await say('to all', tabs);
  await h.until(() => streams().length === 1, 'one stream');
  // The tab that has the stream goes; the next one continues without a loss.
  const [leader] = streams();
  const rest = tabs.filter((tab) => tab !== leader);
  await leader.close();
  await say('to the rest', rest);
  await h.until(() => streams().length === 1, 'one stream');
  for (const tab of rest) assert.deepEqual(tab.problems, []);
});

test('a burst of 5,000 deltas is drawn once per frame, takes no key and loses no word', async (t) => {
  const daemon = await h.startDaemon(t);
  const words = Array.from({ length: 5000 }, (_, n) => `w${n} `);
  const burst = words.map((word) => h.text(word, { delta: true, message: 'm' }));
  const session = await h.playedSession(daemon, [...burst, { hang: true }], { settle: false, prompt: null });
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.locator('#live').getByText('Live').waitFor();
  const box = page.getByLabel('Message', { exact: true });
  await box.click();
  // How often the text changes outside of a frame, however few frames a slow machine has.
  await page.evaluate(() => {
    let isFrame = false;
    const frame = requestAnimationFrame;
    window.requestAnimationFrame = (work) => frame((now) => {
      isFrame = true;
      work(now);
      queueMicrotask(() => (isFrame = false)); // after the observer
    });
    window.changes = { inside: 0, outside: 0 };
    const changed = () => (window.changes[isFrame ? 'inside' : 'outside'] += 1);
    new MutationObserver(changed).observe(document.querySelector('.pane'), { subtree: true, characterData: true });
  });
  let loaded = 0;
  page.on('request', (request) => (loaded += request.url().includes('/transcript?')));
  // It begins now, when the page listens, and keys arrive while it goes on.
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'go' });
  const typed = 'typed during the burst';
  await box.pressSequentially(typed);
  const whole = words.join('').trim();
  await h.until(async () => (await page.locator('.row.reply .body').allTextContents()).join('').trim() === whole, 'all words');
  assert.equal(await box.inputValue(), typed);
  const { inside, outside } = await page.evaluate(() => window.changes);
  // A page that was loaded may continue the text.
  assert.ok(outside <= loaded, `${outside} changes outside of ${inside} frames, with ${loaded} pages`);
  assert.equal(await page.locator('.row.reply').count(), 1);
  assert.deepEqual(page.problems, []);
});

test('after a lost connection the page continues where it was', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, '[[reply]]\nrepeat = true\ntext = "You said: {prompt}"\n', { prompt: 'first' });
  await h.settled(daemon, session.id);
  const proxy = await h.startProxy(t);
  const page = await h.newPage(t, { proxy });
  await h.login(page, daemon, { session: session.id });
  await page.getByText('You said: first').waitFor();
  await page.locator('#live').getByText('Live').waitFor();
  proxy.cut();
  await page.locator('#live').getByText('Reconnecting').waitFor();
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'meanwhile' });
  await h.settled(daemon, session.id);
  proxy.restore();
  await page.locator('#live').getByText('Live').waitFor();
  await page.getByText('You said: meanwhile').waitFor();
  assert.equal(await page.locator('.row.prompt').count(), 2);
  const { search, headers } = proxy.streams.at(-1);
  assert.match(headers['last-event-id'] ?? search, /\d/, 'it continues after the last event');
});

test('a connection that is open but silent counts as lost', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, '[[reply]]\nrepeat = true\ntext = "You said: {prompt}"\n', { prompt: 'first' });
  await h.settled(daemon, session.id);
  const proxy = await h.startProxy(t);
  const page = await h.newPage(t, { proxy });
  await page.clock.install();
  await h.login(page, daemon, { session: session.id });
  await page.locator('#live').getByText('Live').waitFor();
  const follower = await h.newTab(page);
  await follower.clock.install();
  await follower.goto(page.url());
  await follower.locator('#live').getByText('Live').waitFor();
  const before = proxy.streams.length;
  proxy.stall();
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'unheard' });
  await h.settled(daemon, session.id);
  // Neither a heartbeat nor an event for longer than the daemon is ever silent.
  await page.clock.fastForward(45_000);
  await h.until(() => proxy.streams.length > before || page.clock.runFor(1000), 'another connection');
  await page.locator('#live').getByText('Live').waitFor();
  await page.getByText('You said: unheard').waitFor();
  // A tab that hears nothing of the one with the connection says so, even if only for a moment.
  await follower.evaluate(() => {
    const line = document.getElementById('live');
    window.states = [];
    new MutationObserver(() => window.states.push(line.textContent)).observe(line, { childList: true, subtree: true });
  });
  await follower.clock.fastForward(45_000);
  await h.until(() => follower.evaluate(() => window.states.includes('Reconnecting')), 'the state');
});

test('nothing is lost between the first page and the start of the stream', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, '[[reply]]\nrepeat = true\ntext = "You said: {prompt}"\n', { prompt: 'first' });
  await h.settled(daemon, session.id);
  for (const [part, row] of [['', '.row.reply'], ['/events', '.row.event']]) {
    const page = await h.newPage(t);
    let open;
    const gate = new Promise((done) => (open = done));
    await page.route('**/v1/events*', async (route) => {
      await gate;
      await route.fallback();
    });
    await h.login(page, daemon, { session: session.id + part });
    await page.locator(row, { hasText: 'You said: first' }).first().waitFor();
    const text = `meanwhile${part.slice(1)}`;
    await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text });
    await h.settled(daemon, session.id);
    open();
    await page.locator(row, { hasText: `You said: ${text}` }).first().waitFor();
    assert.deepEqual(page.problems, []);
  }
});

test('nothing is lost while a session opens', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.scriptedSession(daemon, '[[reply]]\nrepeat = true\ntext = "You said: {prompt}"\n', { prompt: 'first' });
  await h.settled(daemon, session.id);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: 'none' }); // a view that does not know the session
  await h.live(page);
  // The first page is there before the session, and a turn ends in between.
  let open;
  const gate = new Promise((done) => (open = done));
  await page.route(`**/v1/sessions/${session.id}`, async (route) => {
    const response = await route.fetch();
    await gate;
    await route.fulfill({ response });
  });
  const first = page.waitForResponse('**/transcript?*');
  await h.visit(page, `/s/${session.id}`);
  await (await first).finished();
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'meanwhile' });
  await h.settled(daemon, session.id);
  open();
  await page.getByText('You said: meanwhile').waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

test('after a restart of the daemon the page asks for a login, and continues', async (t) => {
  const port = await h.freePort();
  const daemon = await h.startDaemon(t, { args: ['--listen', `127.0.0.1:${port}`] });
  const session = await h.playedSession(daemon, [h.text('Still here.')]);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.getByText('Still here.').waitFor();
  await page.locator('#live').getByText('Live').waitFor();
  await daemon.halt();
  await page.locator('#live').getByText('Reconnecting').waitFor();
  await page.getByText('Still here.').waitFor();
  await daemon.launch();
  await page.getByText('This browser is not logged in').waitFor();
  // A link that is opened in another tab logs this one in too.
  const tab = await h.newTab(page);
  await h.login(tab, daemon);
  await page.getByText('Still here.').waitFor();
  await page.locator('#live').getByText('Live').waitFor();
});
