// Search and usage: what is found, and the same figures as on the command line.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as h from './harness.mjs';

test('search finds what was said, done and returned, and jumps to it', async (t) => {
  const daemon = await h.startDaemon(t);
  const filler = Array.from({ length: 150 }, (_, n) => h.text(`Paragraph ${n}.`));
  const session = await h.playedSession(daemon, [
    ...filler,
    h.thought('A platypus would do.'),
    ...h.toolCall('Bash', { command: 'echo platypus <b>' }, { output: 'platypus again' }),
    h.text('The **platypus** is ready.'),
    ...filler,
  ], { prompt: 'Find the platypus' });
  await h.playedSession(daemon, [h.text('Nothing here.')], { prompt: 'Another one' });
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await h.visit(page, '/search');
  assert.ok(await page.getByLabel('Search', { exact: true }).evaluate((node) => node === document.activeElement));
  await page.keyboard.type('platypus');
  await page.locator('main').getByText('5 matches in 1 session').waitFor();
  assert.deepEqual(
    (await page.locator('.results .speaker').allTextContents()).sort(),
    ['Prompt', 'Reply', 'Thought', 'Tool call', 'Tool result'],
  );
  for (const hit of await page.locator('.results mark').allTextContents()) assert.equal(hit.toLowerCase(), 'platypus');
  // Filters.
  await page.getByLabel('Kind').selectOption('Tool results');
  await page.locator('main').getByText('1 match in 1 session').waitFor();
  await page.getByLabel('Agent').fill('scripted');
  await page.locator('main').getByText('Nothing found.').waitFor();
  await page.getByLabel('Agent').fill('mock');
  await page.locator('main').getByText('1 match in 1 session').waitFor();
  await page.getByLabel('Directory').fill('/elsewhere');
  await page.locator('main').getByText('Nothing found.').waitFor();
  await page.getByLabel('Directory').fill(daemon.work);
  await page.getByLabel('Period').selectOption('Last day');
  await page.locator('main').getByText('1 match in 1 session').waitFor();
  await page.clock.setFixedTime(Date.now() + 3 * 86_400_000);
  await page.getByLabel('Period').selectOption('Any time');
  await page.getByLabel('Period').selectOption('Last day');
  await page.locator('main').getByText('Nothing found.').waitFor();
  await page.getByLabel('Period').selectOption('Last 7 days');
  await page.locator('main').getByText('1 match in 1 session').waitFor();
  // The address has the search, and a reload repeats it.
  await page.reload();
  await page.locator('main').getByText('1 match in 1 session').waitFor();
  // A match opens the session at its event.
  await page.locator('.results li a').click();
  const row = page.locator('.row.tool', { hasText: 'echo platypus' });
  await row.getByText('platypus again').waitFor(); // it is open, so that the match can be seen
  await h.until(() => row.evaluate((node) => {
    const box = node.getBoundingClientRect();
    return box.top > 0 && box.bottom < innerHeight;
  }), 'the event in view');
  assert.ok((await page.evaluate(() => location.hash)).startsWith(`#/s/${session.id}/`));
  assert.deepEqual(page.problems, []);
});

test('usage has the figures of the command line, as bars and as a table', async (t) => {
  const daemon = await h.startDaemon(t);
  const used = (model, input, output, cost) => [
    { type: 'usage', scope: 'turn', model, input, cache_read: 50, cache_write: 7, output, cost_usd: cost, cost_source: 'reported' },
    h.turnEnded({ usage: { model, input, cache_read: 50, cache_write: 7, output, cost_usd: cost, cost_source: 'reported' } }),
  ];
  await h.playedSession(daemon, used('large', 123456, 7890, 1.25));
  await h.playedSession(daemon, used('small', 1000, 10, 0.0125));
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await h.visit(page, '/usage');
  await page.locator('.usagetable tbody tr').first().waitFor();
  for (const by of ['day', 'agent', 'model', 'dir']) {
    await page.getByLabel('Per', { exact: true }).selectOption(by);
    await page.locator('.usagetable caption', { hasText: `--by ${by}` }).waitFor();
    const report = JSON.parse(await daemon.shell(`ostler usage --json --by ${by}`));
    const groups = report.groups;
    const rows = await page.locator('.usagetable tbody tr:not(.part), .usagetable tfoot tr').evaluateAll((nodes) => nodes.map((row) => ({
      key: row.querySelector('th').title,
      figures: [...row.querySelectorAll('td')].map((cell) => cell.title || cell.firstElementChild?.title || cell.textContent),
      cost: row.lastElementChild.textContent,
    })));
    const dollars = (value) => `$${value.toFixed(value < 0.1 ? 4 : 2)}`;
    const number = (value) => (value == null ? '—' : value.toLocaleString('en'));
    const expected = (group) => {
      const { sessions, turns, input, cache_read, cache_write, output, tokens } = group;
      return [sessions, turns, input, cache_read, cache_write, output, tokens].map(number);
    };
    assert.equal(rows.length, groups.length + 1);
    for (const group of groups) {
      const row = rows.find(({ key }) => key === group[by]);
      assert.ok(row, `${group[by]} of ${JSON.stringify(rows)}`);
      assert.deepEqual(row.figures.slice(0, 7), expected(group), by);
      assert.equal(row.cost, dollars(group.cost_usd), by);
    }
    assert.deepEqual(rows.at(-1).figures.slice(0, 7), expected(report.total), by);
    assert.equal(rows.at(-1).cost, '$1.26');
  }
  // One bar per part, and a name for those who do not see them.
  await page.getByLabel('Per', { exact: true }).selectOption('day');
  await page.getByLabel('Split by').selectOption('model');
  const chart = page.locator('svg.bars');
  await page.locator('.legend', { hasText: 'large' }).waitFor();
  assert.equal(await chart.locator('rect').count(), 2);
  assert.equal(await chart.getAttribute('role'), 'img');
  assert.match(await page.locator('figcaption').textContent(), /Cost per day.*table/);
  assert.match(await chart.locator('rect title').first().textContent(), /large: \$1\.25/);
  const tall = await chart.locator('rect').evaluateAll((nodes) => nodes.map((node) => Number(node.getAttribute('height'))));
  assert.ok(tall[0] > 50 * tall[1], `${tall}`);
  await page.getByLabel('Measure').selectOption('Tokens');
  await page.locator('svg.bars title', { hasText: 'large: 131k' }).waitFor({ state: 'attached' });
  assert.deepEqual(page.problems, []);
});

test('turns that end together are counted with one request', async (t) => {
  const daemon = await h.startDaemon(t);
  const used = h.turnEnded({ usage: { input: 10, output: 1, cost_usd: 0.5, cost_source: 'reported' } });
  await h.playedSession(daemon, [used]);
  const page = await h.newPage(t);
  await page.clock.install();
  await h.login(page, daemon);
  await h.visit(page, '/usage');
  await page.locator('.totals').getByText('$0.50').waitFor();
  await h.live(page);
  let requests = 0;
  page.on('request', (request) => (requests += request.url().includes('/v1/usage')));
  // No time passes in the page while it hears of the turns.
  await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 15_000);
  await page.evaluate(() => {
    window.ends = 0;
    new BroadcastChannel('ostler-live').onmessage = ({ data }) => (window.ends += data.events.filter((event) => event.type === 'turn_ended').length);
  });
  for (let n = 0; n < 5; n += 1) await h.playedSession(daemon, [used]);
  await h.until(() => page.evaluate(() => window.ends === 5), 'all ends');
  assert.equal(requests, 0);
  await page.clock.runFor(3000);
  await page.locator('.totals').getByText('$3.00').waitFor();
  assert.equal(requests, 1);
});
