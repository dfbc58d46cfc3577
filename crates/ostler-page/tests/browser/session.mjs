// One session: what it shows, and how it is read, copied and exported.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import * as h from './harness.mjs';

const PATCH = ['fn add(a: i32) -> i32 {\n    a - 1 // wrong\n}', 'fn add(a: i32) -> i32 {\n    a + 1\n}'];

/** A turn with everything that a session can show. */
function everything() {
  return [
    h.thought('First I read the file.\nThen I fix it.'),
    ...h.toolCall('Read', { file_path: 'src/lib.rs' }, { output: 'fn add…' }),
    ...h.editCall('src/lib.rs', ...PATCH),
    ...h.toolCall('Bash', { command: 'cargo test' }, { output: '\u001b[31mtest failed\u001b[0m', ok: false }),
    ...h.toolCall('Bash', { command: 'rm -rf /' }, { output: 'not allowed', ok: false, denied: true }),
    h.text('It **works** now:\n\n```rust\nlet x = 1;\n```\n\nSee [the docs](https://example.com/a).'),
    h.turnEnded({ usage: { input: 100, output: 20, cost_usd: 0.5, cost_source: 'estimated' } }),
  ];
}

const tool = (page, name) => page.locator('.row.tool', { hasText: name });

test('text streams in, and becomes Markdown when it is complete', async (t) => {
  const daemon = await h.startDaemon(t);
  const events = [
    h.text('Half a **sen', { delta: true, message: 'm' }),
    { hang: true },
  ];
  const session = await h.playedSession(daemon, events, { settle: false });
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  const reply = page.locator('.row.reply');
  await reply.getByText('Half a **sen').waitFor();
  assert.equal(await reply.locator('strong').count(), 0, 'an open message is text');
  await page.locator('.chip').getByText('Working').waitFor();
  await page.getByRole('button', { name: 'Interrupt' }).click();
  await page.locator('.row.turn_ended').waitFor();
  // The next turn streams while the page is open.
  const more = await h.playedSession(daemon, [
    h.text('One ', { delta: true, message: 'n' }), h.wait(30), h.text('**two**', { delta: true, message: 'n' }),
    h.wait(30), ...h.toolCall('Bash', { command: 'ls' }, { output: 'x' }),
  ]);
  await h.visit(page, `/s/${more.id}`);
  await page.locator('.row.reply strong', { hasText: 'two' }).waitFor();
  assert.deepEqual(page.problems, []);
});

test('a session that is opened while it streams is shown whole', async (t) => {
  const daemon = await h.startDaemon(t);
  const words = Array.from({ length: 120 }, (_, n) => `word${n}\n\n`);
  const events = words.flatMap((word) => [h.text(word, { delta: true, message: 'm' }), h.wait(2)]);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  // From the table, which knows the session already; and after a reload, in the middle of the text.
  for (const again of [false, true]) {
    const session = await h.playedSession(daemon, [...events, { hang: true }], { settle: false });
    await h.visit(page, `/s/${session.id}`);
    if (again) await page.reload();
    const replies = () => page.locator('.row.reply .body').allTextContents();
    await h.until(async () => (await replies()).join('') === words.join(''), 'all of it');
    assert.equal((await replies()).length, 1, 'one message');
    await h.until(() => page.evaluate(() => {
      const { scrollHeight } = document.documentElement;
      return scrollHeight > 2 * innerHeight && scrollY + innerHeight >= scrollHeight - 2;
    }), 'the end in view');
    await h.visit(page, `/s/${session.id}/events`);
    await page.locator('.row.event', { hasText: 'word119' }).waitFor();
    await h.visit(page, '/');
    await page.locator('.sessions').waitFor();
  }
  assert.deepEqual(page.problems, []);
});

test('thoughts are folded, and tool calls are lines that open', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, everything(), { prompt: 'Fix add' });
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.getByRole('heading', { level: 1, name: 'Fix add' }).waitFor();
  const thought = page.locator('.row.thinking');
  await thought.getByText('First I read the file.').waitFor();
  assert.equal(await thought.getByText('Then I fix it.').isVisible(), false);
  await thought.locator('summary').click();
  await thought.getByText('Then I fix it.').waitFor();
  // One line each: what, path or command, and how it ended.
  const failed = tool(page, 'cargo test');
  assert.match(await failed.locator('summary').textContent(), /Run.*cargo test.*failed/s);
  assert.match(await tool(page, 'rm -rf /').locator('summary').textContent(), /denied/);
  assert.match(await tool(page, 'Read').locator('summary').textContent(), /src\/lib\.rs.*ok/s);
  await failed.locator('summary').click();
  assert.match(await failed.locator('.took').textContent(), /^\d+ ms$|^[\d.]+ s$/);
  const output = failed.locator('pre').last();
  assert.equal(await output.textContent(), 'test failed', 'colours of a terminal are dropped');
  // Markdown, with the host of a link, and code in colour.
  const reply = page.locator('.row.reply');
  await reply.locator('strong', { hasText: 'works' }).waitFor();
  const link = reply.locator('a');
  assert.deepEqual(
    [await link.getAttribute('rel'), await link.getAttribute('target')],
    ['noreferrer noopener', '_blank'],
  );
  assert.ok((await reply.textContent()).includes('example.com'), 'the host is shown');
  assert.equal(await reply.locator('code .tk').first().textContent(), 'let');
  assert.match(await page.locator('.row.turn_ended').textContent(), /120 tokens.*≈ \$0\.50/s);
  // In all, with the source of the cost.
  const facts = page.locator('.facts dl').first();
  await facts.locator('dt', { hasText: 'Source' }).waitFor();
  const names = await facts.locator('dt').allTextContents();
  const values = await facts.locator('dd').allTextContents();
  const shown = Object.fromEntries(names.map((name, n) => [name, values[n]]));
  assert.deepEqual([shown.Tokens, shown.Cost, shown.Source], ['120', '≈ $0.50', 'estimated from a price list']);
  assert.deepEqual(page.problems, []);
});

test('an edit opens to a diff, unified or side by side, and the changes tab has all files', async (t) => {
  const daemon = await h.startDaemon(t);
  const events = [...everything().slice(0, -1), ...h.editCall('docs/a.md', 'old\n', 'new\nmore\n')];
  const session = await h.playedSession(daemon, events);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  const edit = tool(page, 'Edit').first();
  assert.match(await edit.locator('summary').textContent(), /src\/lib\.rs.*\+1.*−1/s);
  await edit.locator('summary').click();
  await edit.locator('table.unified').waitFor();
  assert.match(await edit.locator('tr.del').textContent(), /a - 1/);
  assert.match(await edit.locator('tr.add').textContent(), /a \+ 1/);
  assert.equal(await edit.locator('tr.del .tc').textContent(), '// wrong');
  await edit.getByRole('button', { name: 'Side by side' }).click();
  await edit.locator('table.split').waitFor();
  const pair = edit.locator('tr', { has: page.locator('td.del') });
  assert.ok((await pair.locator('td.add.code').textContent()).includes('a + 1'), 'both sides are in one row');
  await page.getByRole('link', { name: /^Changes/ }).click();
  await page.getByRole('heading', { name: /2 files changed/ }).waitFor();
  assert.match(await page.locator('.changes h2').textContent(), /\+3.*−2/);
  await page.locator('.changes table.split').first().waitFor(); // the choice is remembered
  await page.getByRole('button', { name: 'Unified' }).click();
  await page.locator('.changes table.unified').first().waitFor();
  assert.equal(await page.locator('.changes details.file').count(), 2);
  await page.getByRole('button', { name: 'docs/a.md' }).click();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'SUMMARY');
  assert.deepEqual(page.problems, []);
});

test('the timeline jumps to turns and tools, by pointer and by key', async (t) => {
  const daemon = await h.startDaemon(t);
  const filler = Array.from({ length: 80 }, (_, n) => [h.text(`Paragraph ${n}.`), h.wait(2)]).flat();
  const target = h.toolCall('Bash', { command: 'the-needle' }, { output: 'x' });
  const session = await h.playedSession(daemon, [...filler, ...target, ...filler]);
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'again' });
  await h.settled(daemon, session.id);
  await daemon.api.post(`/v1/sessions/${session.id}/stop`);
  await h.until(async () => (await daemon.api.get(`/v1/sessions/${session.id}`)).state === 'ended', 'its end');
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  const strip = page.getByRole('slider', { name: 'Timeline' });
  await strip.waitFor();
  assert.equal(await strip.getAttribute('aria-valuemax'), '4', 'two turns with a tool call each');
  for (const name of ['turn', 'tool']) assert.ok((await strip.locator(`rect.${name}`).count()) > 0, name);
  // A click on the tool's bar shows the tool, which was out of sight.
  const visible = (text) => page.evaluate((text) => {
    const all = [...document.querySelectorAll('.row')].filter((row) => row.textContent.includes(text));
    return all.some((row) => {
      const box = row.getBoundingClientRect();
      return box.top >= 0 && box.bottom <= innerHeight;
    });
  }, text);
  assert.equal(await visible('the-needle'), false);
  const bar = await strip.locator('rect.tool').first().boundingBox();
  await page.mouse.click(bar.x + 1, bar.y + bar.height / 2); // where it begins: its end may be nearer to something else
  await h.until(() => visible('the-needle'), 'the tool call');
  // The value follows the reader.
  await h.until(async () => (await strip.getAttribute('aria-valuetext')).includes('the-needle'), 'the value');
  await strip.focus();
  await page.keyboard.press('PageUp');
  assert.match(await strip.getAttribute('aria-valuetext'), /turn 2$/);
  await h.until(() => visible('again'), 'the second prompt');
  await page.keyboard.press('Home');
  await h.until(() => visible('Paragraph 0.'), 'the first turn');
  await page.keyboard.press('ArrowRight');
  assert.match(await strip.getAttribute('aria-valuetext'), /the-needle/);
  await h.until(() => visible('the-needle'), 'the tool call');
  // The same as a table, with links.
  await page.locator('aside').getByRole('link', { name: 'Turn 2' }).click();
  await h.until(() => visible('again'), 'the second prompt');
  assert.deepEqual(page.problems, []);
});

test('the timeline shows waits for approval and tokens', async (t) => {
  const daemon = await h.startDaemon(t);
  const used = (input) => ({ type: 'usage', scope: 'turn', model: 'm', input, cache_read: 0, cache_write: 0, output: 1, cost_usd: null, cost_source: 'unknown' });
  const counted = await h.playedSession(daemon, [used(1000), h.wait(30), h.text('x'), used(2000), h.turnEnded({ usage: { input: 2000, output: 1, cost_source: 'unknown' } })]);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: counted.id });
  const strip = page.getByRole('slider', { name: 'Timeline' });
  await strip.locator('path.tokens').waitFor({ state: 'attached' });
  const table = page.locator('.facts table');
  assert.match(await table.locator('caption').textContent(), /^1 turn, 2\.0k tokens$/);
  assert.match(await table.locator('td').last().textContent(), /^—$/);
  const asking = await h.askingSession(daemon, [{ tool: 'write_file', input: { path: 'a', content: '' } }]);
  const [approval] = await h.pending(daemon);
  await daemon.api.post(`/v1/approvals/${approval.id}`, { decision: 'allow' });
  await h.settled(daemon, asking.id);
  await h.visit(page, `/s/${asking.id}`);
  await strip.locator('rect.wait').waitFor({ state: 'attached' });
  assert.equal(await strip.locator('path.tokens').count(), 0);
  await strip.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('Home');
  const names = [];
  for (let n = 0; n < 4; n += 1) {
    names.push(await strip.getAttribute('aria-valuetext'));
    await page.keyboard.press('ArrowRight');
  }
  assert.ok(names.some((name) => /waited for approval: .*write_file.* · \d/.test(name)), names.join());
  assert.match(await page.locator('.facts tbody td').last().textContent(), /^\d/);
  assert.deepEqual(page.problems, []);
});

test('the events tab has every event as it is stored', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, everything());
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.getByRole('link', { name: 'Events' }).click();
  await page.locator('.row.event').first().waitFor();
  const { events } = await daemon.api.get(`/v1/sessions/${session.id}/history?limit=1000`);
  await h.until(async () => (await page.locator('.row.event').count()) === events.length, 'all events');
  const call = page.locator('.row.event', { hasText: 'cargo test' });
  await call.locator('summary').click();
  const shown = JSON.parse(await call.locator('pre').textContent());
  assert.deepEqual(shown, events.find((event) => event.seq === shown.seq));
  await page.keyboard.press('1');
  await page.locator('.row.reply').waitFor();
  await page.keyboard.press('2');
  await page.getByRole('heading', { name: /files? changed/ }).waitFor();
  assert.deepEqual(page.problems, []);
});

test('copies are what they say', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, everything(), { prompt: 'Fix add' });
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon, { session: session.id });
  const clipboard = (wanted) => h.until(async () => {
    const text = await page.evaluate(() => navigator.clipboard.readText());
    return wanted(text) && text;
  }, 'the copy');
  const copied = async (name) => {
    await page.evaluate(() => navigator.clipboard.writeText('nothing'));
    await page.locator('aside').getByRole('button', { name, exact: true }).click();
    const text = await clipboard((it) => it !== 'nothing');
    await page.locator('aside').getByText('Copied').waitFor({ state: 'detached' });
    return text;
  };
  assert.equal(await copied('Resume command'), `ostler attach ${session.id}`);
  assert.equal(await copied('Link'), `${origin}/#/s/${session.id}`);
  assert.ok((await copied('Markdown')).includes('It **works** now'));
  assert.ok((await copied('JSON')).includes('"cargo test"'));
  await daemon.api.post(`/v1/sessions/${session.id}/stop`);
  await page.locator('.row.ended').waitFor();
  await page.getByRole('button', { name: 'Resume', exact: true }).waitFor();
  assert.equal(await copied('Resume command'), `ostler chat --resume ${session.id}`);
  const edit = tool(page, 'cargo test');
  await edit.locator('summary').click();
  await edit.getByRole('button', { name: 'Copy command' }).click();
  await clipboard((it) => it === 'cargo test');
  assert.deepEqual(page.problems, []);
});

test('the exported file opens from the disk, without any request', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.playedSession(daemon, everything(), { prompt: 'Fix add' });
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  const download = page.waitForEvent('download');
  await page.locator('aside').getByRole('link', { name: 'HTML' }).click();
  const file = await (await download).path();
  await daemon.halt();
  const copy = `${file}.html`;
  const { copyFileSync } = await import('node:fs');
  copyFileSync(file, copy);
  for (const theme of ['light', 'dark']) {
    const reader = await h.newPage(t, { theme });
    const requests = [];
    reader.on('request', (request) => requests.push(request.url()));
    await reader.goto(`file://${copy}`);
    await reader.getByRole('heading', { level: 1, name: 'Fix add' }).waitFor();
    await reader.locator('.row.reply strong', { hasText: 'works' }).waitFor();
    const edit = reader.locator('.row.tool', { hasText: 'Edit' });
    await edit.locator('summary').click();
    await edit.locator('tr.add').waitFor();
    await h.axe(reader);
    await reader.getByRole('link', { name: /^Changes/ }).click();
    await reader.getByRole('heading', { name: '1 file changed' }).waitFor();
    await h.axe(reader);
    assert.deepEqual(requests.filter((url) => !url.startsWith(`file://${copy}`)), []);
    assert.deepEqual(reader.problems, []);
  }
  assert.ok(!readFileSync(copy, 'utf8').includes('127.0.0.1'), 'it names no server');
});

test('sub-agents are nested below the call that started them', async (t) => {
  const daemon = await h.startDaemon(t);
  const [call, result] = h.toolCall('Task', { description: 'Look around', prompt: 'Find it' }, { output: 'Found.' });
  const [inner, innerResult] = h.toolCall('Grep', { pattern: 'needle' }, { output: 'a.rs', parent: call.id });
  const [deep, deepResult] = h.toolCall('Task', { description: 'Deeper' }, { output: 'y', parent: call.id });
  const session = await h.playedSession(daemon, [
    call, inner, innerResult, deep, h.text('At the bottom.', { parent: deep.id }), deepResult, result, h.text('Back at the top.'),
  ]);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  const depth = async (text) => {
    const row = page.locator('.row', { hasText: text }).first();
    await row.waitFor();
    return row.evaluate((node) => Number(node.style.getPropertyValue('--depth') || 0));
  };
  assert.deepEqual(
    [await depth('Look around'), await depth('needle'), await depth('At the bottom.'), await depth('Back at the top.')],
    [0, 1, 2, 0],
  );
  const left = (text) => page.locator('.row', { hasText: text }).first().locator('.body').evaluate((node) => {
    const style = getComputedStyle(node.parentElement);
    return node.getBoundingClientRect().left + parseFloat(style.paddingLeft);
  });
  assert.ok((await left('needle')) > (await left('Back at the top.')), 'it is indented');
  assert.deepEqual(page.problems, []);
});

test('nothing moves while one reads: a pill counts what arrived', async (t) => {
  const daemon = await h.startDaemon(t);
  const lines = Array.from({ length: 60 }, (_, n) => h.text(`Paragraph ${n}.`));
  const session = await h.playedSession(daemon, lines);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.getByText('Paragraph 59.').waitFor();
  await page.mouse.move(500, 400);
  const end = await page.evaluate(() => scrollY);
  await page.mouse.wheel(0, -1500);
  await page.waitForFunction((end) => scrollY < end, end);
  const seen = page.getByText('Paragraph 30.');
  await seen.scrollIntoViewIfNeeded();
  const place = () => seen.evaluate((node) => Math.round(node.getBoundingClientRect().top));
  await h.until(async () => {
    const before = await place();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    return before === (await place());
  }, 'the end of the scrolling');
  const before = await place();
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'once more' });
  const pill = page.locator('.pill');
  await pill.getByText(/new message/).waitFor();
  await h.settled(daemon, session.id);
  await h.until(async () => /[1-9]/.test(await pill.textContent()), 'a count');
  assert.equal(await place(), before);
  await pill.click();
  await h.until(async () => !(await pill.isVisible()), 'the end');
  await page.locator('.row.turn_ended', { hasText: 'Turn 2' }).waitFor();
  assert.deepEqual(page.problems, []);
});

test('nothing moves when a request for approval appears, which is in view', async (t) => {
  const daemon = await h.startDaemon(t);
  const paragraphs = Array.from({ length: 60 }, (_, n) => `Paragraph ${n}.`).join('\n\n');
  const script = `[[reply]]\ntext = ${JSON.stringify(paragraphs)}\n[[reply]]\ncalls = [{ tool = "write_file", input = { path = "b", content = "" } }]\n[[reply]]\ntext = "done"\n`;
  const session = await h.scriptedSession(daemon, script, { permissions: 'ask', prompt: 'go' });
  await h.settled(daemon, session.id);
  const page = await h.newPage(t);
  await h.login(page, daemon, { session: session.id });
  await page.getByText('Paragraph 59.').waitFor();
  await h.live(page);
  const place = () => page.getByText('Paragraph 30.').evaluate((node) => Math.round(node.getBoundingClientRect().top));
  await page.evaluate(() => scrollTo({ top: document.documentElement.scrollHeight / 2, behavior: 'instant' }));
  const before = await place();
  await daemon.api.post(`/v1/sessions/${session.id}/messages`, { text: 'now write' });
  const banner = page.locator('.banner', { hasText: 'Needs approval' });
  await banner.waitFor();
  await page.locator('.pill').getByText(/new message/).waitFor();
  const [top, bottom] = await banner.evaluate((node) => [node.getBoundingClientRect().top, innerHeight - node.getBoundingClientRect().bottom]);
  assert.ok(top > 0 && bottom >= 0, `the request is in view: ${top}, ${bottom}`);
  assert.equal(await place(), before);
  assert.deepEqual(page.problems, []);
});

test('the log is silent, and one status line says what happens', async (t) => {
  const daemon = await h.startDaemon(t);
  const session = await h.askingSession(daemon, [{ tool: 'write_file', input: { path: 'a', content: '' } }]);
  const [approval] = await h.pending(daemon);
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon, { session: session.id });
  assert.equal(await page.getByRole('log').getAttribute('aria-live'), 'off');
  await h.live(page);
  // All that the status line said, in order.
  await page.evaluate(() => {
    window.said = [];
    const line = document.getElementById('status');
    new MutationObserver(() => line.textContent && window.said.push(line.textContent)).observe(line, { childList: true });
  });
  const said = (text) => page.waitForFunction((text) => window.said.includes(text), text);
  await page.locator('.banner').getByText('Needs approval').waitFor();
  await daemon.api.post(`/v1/approvals/${approval.id}`, { decision: 'allow' });
  await said('Turn done');
  const failure = [h.turnEnded({ status: 'failed', cause: 'rate_limit', message: 'Slow down.' })];
  const failing = await h.playedSession(daemon, failure, { settle: false, prompt: null });
  await page.goto(`${origin}/#/s/${failing.id}`);
  await page.getByText('Nothing has been said yet.').waitFor();
  await daemon.api.post(`/v1/sessions/${failing.id}/messages`, { text: 'go' });
  await page.locator('.row.turn_ended').getByText('Slow down.').waitFor();
  await said('Turn failed: rate limit');
  // A request that comes while the session is open.
  const script = '[[reply]]\ncalls = [{ tool = "write_file", input = { path = "b", content = "" } }]\n[[reply]]\ntext = "done"\n';
  const asking = await h.scriptedSession(daemon, script, { permissions: 'ask' });
  await page.goto(`${origin}/#/s/${asking.id}`);
  await page.getByText('Nothing has been said yet.').waitFor();
  await daemon.api.post(`/v1/sessions/${asking.id}/messages`, { text: 'go' });
  await said('Needs approval');
  await said('Working');
  assert.equal(await page.locator('#status').getAttribute('aria-live'), 'polite');
});
