// Accessibility, narrow screens, zoom, and the whole page by keyboard.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import * as h from './harness.mjs';

const LONG = 'a-very-long-name-without-any-space-'.repeat(6);

/** A daemon with sessions that have something of everything, in extreme lengths. */
async function furnished(t) {
  const daemon = await h.startDaemon(t);
  const [task, taskResult] = h.toolCall('Task', { description: 'Look' }, { output: 'ok' });
  const session = await h.playedSession(daemon, [
    { type: 'notice', level: 'warning', code: 'budget_near', message: `80% of the budget is spent: ${LONG}` },
    h.thought(`A thought about ${LONG}`),
    task, ...h.toolCall('Grep', { pattern: LONG }, { output: LONG, parent: task.id }), taskResult,
    ...h.editCall(`src/${LONG}.rs`, `let a = "${LONG}";`, `let b = "${LONG}";\nlet c = 1;`),
    ...h.toolCall('Bash', { command: `echo ${LONG}` }, { output: `${LONG}\n`.repeat(3), ok: false }),
    h.text(`# A heading\n\nText with \`code\`, ${LONG}, [a link](https://example.com/${LONG})\n\n\`\`\`rust\nlet x = "${LONG}"; // comment\n\`\`\`\n\n| a | b |\n|---|---|\n| ${LONG} | 1 |\n\n- one\n- two\n\n> quoted`),
    h.turnEnded({ usage: { model: 'some-model', input: 100000, cache_read: 5, output: 20, cost_usd: 0.5, cost_source: 'estimated' } }),
  ], { prompt: `Do ${LONG}`, labels: { team: 'red' } });
  await h.playedSession(daemon, [h.turnEnded({ status: 'failed', cause: 'rate_limit', message: `Slow down: ${LONG}` })], { prompt: 'Fails', once: true });
  const asking = await h.askingSession(daemon, [{ tool: 'write_file', input: { path: `${LONG}.txt`, content: `${LONG}\n` } }], { prompt: 'Ask', name: LONG.slice(0, 100) });
  await h.pending(daemon);
  return { daemon, session, asking };
}

/** Every view: its address, and what shows that it is there. */
const views = (session, asking) => [
  ['/', '.sessions tbody tr:nth-child(3)'],
  [`/s/${session.id}`, '.row.turn_ended'],
  [`/s/${session.id}/changes`, '.changes table'],
  [`/s/${session.id}/events`, '.row.event'],
  [`/s/${asking.id}`, '.banner button'],
  ['/approvals', '.request'],
  ['/search?q=thought', '.results li'],
  ['/usage?by=day&split=model', '.usagetable tbody tr'],
  ['/usage?by=model&split=agent', '.hbars'],
  ['/new', 'form.new option[value=scripted]'],
];

/** Opens a view, and waits until all of it is there: what a session has besides its rows comes later. */
async function open(page, view, shown) {
  await h.visit(page, view);
  const parts = /^\/s\//.test(view) ? [shown, '.strip', '.facts dd', '.facts table'] : [shown];
  for (const part of parts) await page.locator(part).first().waitFor({ state: 'attached' });
}

/** Opens everything that is folded on the view. */
async function unfold(page) {
  await page.evaluate(() => {
    for (const box of document.querySelectorAll('main details')) box.open = true;
  });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

for (const theme of ['light', 'dark']) {
  test(`no view violates accessibility rules in the ${theme} theme`, async (t) => {
    const { daemon, session, asking } = await furnished(t);
    const page = await h.newPage(t, { theme });
    await h.login(page, daemon);
    for (const [view, shown] of views(session, asking)) {
      await open(page, view, shown);
      await unfold(page);
      await h.axe(page);
    }
    await h.visit(page, '/approvals');
    await page.getByRole('button', { name: /^Review/ }).click();
    await page.getByRole('dialog').locator('button[aria-disabled=false]').first().waitFor();
    await h.axe(page);
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await h.axe(page);
    const origin = new URL(page.url()).origin;
    const out = await h.newPage(t, { theme });
    await out.goto(origin);
    await out.getByText('This browser is not logged in').waitFor();
    await h.axe(out);
    assert.deepEqual(page.problems, []);
  });
}

for (const theme of ['light', 'dark']) {
  test(`what is empty, decided, ended or failed violates no accessibility rules in the ${theme} theme`, async (t) => {
    const daemon = await h.startDaemon(t);
    const page = await h.newPage(t, { theme });
    await h.login(page, daemon);
    const check = async (view, shown) => {
      await h.visit(page, view);
      await page.locator('main').locator(shown).first().waitFor();
      await h.axe(page);
    };
    const empty = await h.scriptedSession(daemon, '[[reply]]\ntext = "x"\n', { name: 'empty' });
    await check(`/s/${empty.id}`, '.empty');
    await check(`/s/${empty.id}/changes`, '.empty');
    await daemon.api.delete(`/v1/sessions/${empty.id}`);
    await check('/', 'td.empty');
    await check('/approvals', '.empty');
    await check('/usage', '.empty');
    await h.visit(page, '/search?q=none');
    await page.locator('main').getByText('Nothing found.').waitFor();
    await h.axe(page);
    // A session and a form that the daemon rejects.
    await check('/s/none', '.problem');
    await h.visit(page, '/new');
    await page.getByLabel('Task').fill('go');
    await page.getByLabel('Directory').fill('/does/not/exist');
    await page.getByRole('button', { name: 'Start session' }).click();
    await page.getByRole('alert').waitFor();
    await h.axe(page);
    // Decided requests, one with a reason, and an ended session with a message that failed.
    const write = (name) => ({ tool: 'write_file', input: { path: name, content: 'x\n' } });
    const session = await h.askingSession(daemon, [write('a.txt'), write('b.txt')]);
    for (const answer of [{ decision: 'allow' }, { decision: 'deny', message: 'Not this one' }]) {
      const [approval] = await h.pending(daemon);
      await daemon.api.post(`/v1/approvals/${approval.id}`, answer);
      await h.until(async () => (await daemon.api.get(`/v1/approvals/${approval.id}`)).state !== 'pending', 'the decision');
    }
    await h.settled(daemon, session.id);
    await check('/approvals', '.decided tbody tr:nth-child(2)');
    await page.route('**/messages', (route) => route.fulfill({ status: 409, json: { detail: 'It is busy', hint: 'Wait for it.' } }));
    await check(`/s/${session.id}`, '.row.turn_ended');
    await page.getByLabel('Message', { exact: true }).fill('go');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('alert').waitFor();
    await h.axe(page);
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('button', { name: 'Fork' }).waitFor();
    await page.getByRole('button', { name: 'Resume', exact: true }).waitFor();
    await h.axe(page);
    // Diffs side by side, in a row and in the changes.
    const edited = await h.playedSession(daemon, h.editCall('a.rs', 'let a = 1; // one\nfn f() {}', 'let a = "2";\nfn g() {}'));
    await h.visit(page, `/s/${edited.id}`);
    await page.locator('.row.tool summary').click();
    await page.getByRole('button', { name: 'Side by side' }).click();
    await page.locator('.row table.split').waitFor();
    await h.axe(page);
    await check(`/s/${edited.id}/changes`, '.changes table.split');
  });
}

for (const [name, size] of [['at 390 px', { width: 390, height: 844 }], ['at 200 % zoom', { zoom: 2 }]]) {
  test(`no view scrolls sideways ${name}`, async (t) => {
    const { daemon, session, asking } = await furnished(t);
    const page = await h.newPage(t, size);
    await h.login(page, daemon);
    for (const [view, shown] of views(session, asking)) {
      await open(page, view, shown);
      await h.fits(page);
      await unfold(page);
      await h.fits(page);
    }
    await h.visit(page, '/approvals');
    await page.getByRole('button', { name: /^Review/ }).click();
    await page.getByRole('dialog').locator('button[aria-disabled=false]').first().waitFor();
    await h.fits(page);
    const over = await page.getByRole('dialog').evaluate((node) => node.scrollWidth - node.clientWidth);
    assert.ok(over <= 0, `the dialog is ${over} px too wide`);
    assert.deepEqual(page.problems, []);
  });
}

test('no view violates accessibility rules at 390 px, and the help is at hand', async (t) => {
  const { daemon, session, asking } = await furnished(t);
  const page = await h.newPage(t, { width: 390, height: 844 });
  await h.login(page, daemon);
  for (const [view, shown] of views(session, asking)) {
    await open(page, view, shown);
    await unfold(page);
    await h.axe(page);
  }
  await page.getByRole('button', { name: 'Keyboard help' }).click();
  await page.getByRole('button', { name: 'Log out' }).waitFor();
  await h.axe(page);
});

/** Contrast of two colours, as WCAG defines it. */
function contrast(one, two) {
  const light = (colour) => {
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [high, low] = [light(one), light(two)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

for (const theme of ['light', 'dark']) {
  test(`borders of fields and colours of charts stand out in the ${theme} theme`, async (t) => {
    const { daemon } = await furnished(t);
    const page = await h.newPage(t, { theme });
    await h.login(page, daemon);
    await page.locator('.filters input').first().waitFor();
    const colours = await page.evaluate(() => {
      const style = (node) => getComputedStyle(node);
      const swatch = (n) => {
        const node = document.createElement('span');
        node.className = `swatch s${n}`;
        document.body.append(node);
        return style(node).backgroundColor;
      };
      const fields = [...document.querySelectorAll('.filters :is(input, select)')].map((node) => style(node).borderTopColor);
      return { page: style(document.body).backgroundColor, shown: [...fields, ...[0, 1, 2, 3, 4, 5].map(swatch)] };
    });
    for (const colour of colours.shown) assert.ok(contrast(colour, colours.page) >= 3, `${colour} on ${colours.page}`);
  });
}

test('nothing moves for those who asked for less motion', async (t) => {
  const daemon = await h.startDaemon(t);
  await h.playedSession(daemon, [{ hang: true }], { settle: false });
  for (const [motion, name] of [['reduce', 'none'], ['no-preference', 'pulse']]) {
    const page = await h.newPage(t, { motion });
    await h.login(page, daemon);
    const dot = page.locator('.chip.busy .dot').first();
    await dot.waitFor();
    assert.equal(await dot.evaluate((node) => getComputedStyle(node).animationName), name);
  }
});

test('one line announces, on every view', async (t) => {
  const { daemon, session, asking } = await furnished(t);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  for (const [view, shown] of views(session, asking)) {
    await open(page, view, shown);
    const regions = await page.locator('[role=status], [aria-live]:not([aria-live=off])').evaluateAll((nodes) => nodes.map((node) => node.id));
    assert.deepEqual(regions, ['status'], view);
  }
});

test('the order of the keys is that of the screen', async (t) => {
  const { daemon, session } = await furnished(t);
  for (const [width, first] of [[1400, 'content'], [1000, 'ASIDE']]) {
    const page = await h.newPage(t, { width });
    await h.login(page, daemon, { session: session.id });
    await page.locator('.row').first().waitFor();
    const order = await page.locator('.columns > *').evaluateAll((nodes) => nodes.map((node) => node.className || node.tagName));
    assert.equal(order[0], first, `${width}`);
    const orders = await page.locator('.columns > *').evaluateAll((nodes) => nodes.map((node) => getComputedStyle(node).order));
    assert.deepEqual(orders, ['0', '0']);
  }
});

test('a phone can read and approve', async (t) => {
  const { daemon, asking } = await furnished(t);
  const page = await h.newPage(t, { width: 390, height: 844 });
  await h.login(page, daemon, { approve: true });
  await page.reload();
  await page.getByRole('link', { name: /^Approvals/ }).click();
  await page.getByRole('button', { name: /^Review/ }).click();
  await page.getByRole('dialog').locator('button[aria-disabled=false]').first().waitFor();
  await page.getByRole('button', { name: 'Allow once' }).click();
  await h.settled(daemon, asking.id);
  await h.pending(daemon, 0);
});

/** Presses Tab until the focus is on an element with this text or name. */
async function tabTo(page, name) {
  for (let n = 0; n < 80; n += 1) {
    await page.keyboard.press('Tab');
    const here = await page.evaluate(() => {
      const node = document.activeElement;
      if (node === document.body) return ''; // between the end of the page and its start
      return `${node.getAttribute('aria-label') ?? ''} ${node.labels?.[0]?.textContent ?? ''} ${node.textContent}`;
    });
    if (here.includes(name)) return;
  }
  assert.fail(`Tab does not reach ${name}`);
}

/** Chooses an option of the focused list. Its letters do not: they must arrive within a second. */
async function choose(page, value) {
  for (let n = 0; n < 40; n += 1) {
    if ((await page.evaluate(() => document.activeElement.value)) === value) return;
    await page.keyboard.press('ArrowDown');
  }
  assert.fail(`the list has no option ${value}`);
}

test('everything works with the keyboard alone', async (t) => {
  const daemon = await h.startDaemon(t);
  await h.playedSession(daemon, [
    h.text('Before.'), ...h.toolCall('Bash', { command: 'ls' }, { output: 'the output' }), ...h.editCall('a.rs', 'x', 'y'),
  ], { prompt: 'Read me' });
  const asking = await h.askingSession(daemon, [{ tool: 'write_file', input: { path: 'a.txt', content: 'x' } }], { prompt: 'Ask me' });
  await h.pending(daemon);
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await page.locator('.sessions tbody tr').nth(1).waitFor();
  await page.locator('.sessions').getByText('Needs approval').waitFor();
  // The first stop leads past the header.
  await page.keyboard.press('Tab');
  assert.match(await page.evaluate(() => document.activeElement.textContent), /skip/i);
  await page.keyboard.press('Enter');
  assert.ok(await page.evaluate(() => document.activeElement.closest('main') !== null));
  assert.ok(!page.url().endsWith('#view'), 'it stays on the view');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Read me' }).waitFor();
  await page.locator('.row.tool').first().waitFor();
  // Rows by j and k, folds by Enter.
  for (let n = 0; n < 10 && !(await page.evaluate(() => document.activeElement.matches('.row.tool'))); n += 1) {
    await page.keyboard.press('j');
  }
  await page.keyboard.press('Enter');
  await page.getByText('the output').waitFor();
  await page.keyboard.press('2');
  await page.getByRole('heading', { name: '1 file changed' }).waitFor();
  await page.keyboard.press('1');
  await page.getByLabel('Message', { exact: true }).waitFor();
  await page.keyboard.press('i');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'message');
  await page.keyboard.press('Escape');
  // An approval, with the code.
  await h.goTo(page, 'a', '/approvals');
  await page.locator('.request').waitFor();
  await page.keyboard.press('j');
  const opener = await page.evaluate(() => document.activeElement.dataset.key);
  assert.ok(opener);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), opener, 'the focus returns');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').locator('button[aria-disabled=false]').first().waitFor();
  await tabTo(page, 'Approval code');
  await page.keyboard.type(await daemon.approvalCode());
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByLabel('Approval code').waitFor({ state: 'detached' });
  await tabTo(page, 'Allow once');
  await page.keyboard.press('Enter');
  await h.settled(daemon, asking.id);
  assert.ok(existsSync(path.join(daemon.work, 'a.txt')));
  // The focus stays in the view.
  await page.getByText('Nothing waits for approval.').waitFor();
  await h.until(() => page.evaluate(() => document.activeElement.closest('main') !== null), 'the focus in the view');
  assert.deepEqual(page.problems, []);
});

test('sessions are started, controlled, found and counted with the keyboard alone', async (t) => {
  const daemon = await h.startDaemon(t);
  h.fakeClaude(daemon, 'loop 9\nread-user\ninit\ntext A rare platypus.\nresult ok\nend');
  const page = await h.newPage(t);
  await h.login(page, daemon);
  await page.getByRole('heading', { level: 1, name: 'Sessions' }).waitFor();
  await h.goTo(page, 'n', '/new');
  await h.until(() => page.evaluate(() => document.activeElement.name === 'prompt'), 'the form');
  await page.locator('option[value=claude]:not([disabled])').waitFor({ state: 'attached' });
  await page.keyboard.type('Find one');
  await tabTo(page, 'Agent');
  await choose(page, 'claude');
  await tabTo(page, 'Directory');
  await page.keyboard.type(daemon.work);
  await tabTo(page, 'End after the first turn');
  await page.keyboard.press('Space');
  await tabTo(page, 'Start session');
  await page.keyboard.press('Enter');
  await page.getByText('A rare platypus.').waitFor();
  await page.getByRole('button', { name: 'Pause' }).waitFor();
  await page.keyboard.press('i');
  await page.keyboard.type('again');
  await page.keyboard.press('Control+Enter');
  await page.locator('.row.prompt', { hasText: 'again' }).waitFor();
  await page.keyboard.press('Escape');
  await h.goTo(page, 'f', '/search');
  await h.until(() => page.evaluate(() => document.activeElement.id === 'filter'), 'the search');
  await page.keyboard.type('platypus');
  await page.locator('.found li a').first().waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.locator('.row.reply', { hasText: 'platypus' }).first().waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(page, 'Stop');
  await page.keyboard.press('Enter');
  await page.locator('.row.ended').waitFor();
  await h.goTo(page, 'u', '/usage');
  await page.locator('.usagetable tbody tr').first().waitFor();
  await tabTo(page, 'Per');
  await choose(page, 'model');
  await page.locator('.usagetable caption', { hasText: '--by model' }).waitFor();
  assert.deepEqual(page.problems, []);
});
