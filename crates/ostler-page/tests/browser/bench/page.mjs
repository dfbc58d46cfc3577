// Figures of docs/performance.md: first paint, frames while scrolling, and a burst of text.
// Run with `cargo xtask bench page`. It asserts nothing: figures depend on the machine.

import { loadavg } from 'node:os';
import { test } from 'node:test';

import * as h from '../harness.mjs';

const ROUNDS = 7;
const EVENTS = 100_000;

const at = (samples, part) => [...samples].sort((a, b) => a - b)[Math.min(samples.length - 1, Math.floor(samples.length * part))];

/** Prints a row of the table: median, 95th percentile and maximum in milliseconds. */
function report(name, samples) {
  const [median, most, max] = [at(samples, 0.5), at(samples, 0.95), Math.max(...samples)].map((ms) => ms.toFixed(1));
  console.log(`| ${name} | ${samples.length} | ${median} | ${most} | ${max} |`);
}

/** Records the time between frames while `work` runs in the page. */
function frames(page, work, argument) {
  return page.evaluate(`(async () => {
    const times = [];
    let last = performance.now();
    let running = true;
    const tick = (now) => {
      times.push(now - last);
      last = now;
      if (running) requestAnimationFrame(tick);
    };
    requestAnimationFrame((now) => { last = now; requestAnimationFrame(tick); });
    await (${work})(${JSON.stringify(argument)});
    running = false;
    return times;
  })()`);
}

test('the figures of the page', async (t) => {
  const daemon = await h.startDaemon(t);
  const long = await h.playedSession(daemon, h.longEvents(EVENTS));
  const short = await h.playedSession(daemon, h.longEvents(100));
  console.log(`load before: ${loadavg().map((it) => it.toFixed(2)).join(' ')}`);
  console.log('| measurement | samples | median, ms | 95 %, ms | maximum, ms |\n|---|---|---|---|---|');
  const page = await h.newPage(t);
  const origin = await h.login(page, daemon);

  // From the click in the table to the frame with the first rows, and from nothing.
  for (const [name, id] of [['100 events', short.id], [`${EVENTS.toLocaleString('en')} events`, long.id]]) {
    const opened = [];
    const loaded = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      await page.goto(`${origin}/#/`);
      await page.locator('.sessions tbody tr').nth(1).waitFor();
      opened.push(await page.evaluate((id) => new Promise((done) => {
        const began = performance.now();
        location.hash = `/s/${id}`;
        const look = () => (document.querySelector('.row') ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(look));
        look();
      }), id));
      await page.goto('about:blank');
      await page.goto(`${origin}/#/s/${id}`);
      loaded.push(await page.evaluate(() => new Promise((done) => {
        const look = () => (document.querySelector('.row') ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look));
        look();
      })));
    }
    report(`session of ${name}: from the click to the first paint`, opened);
    report(`session of ${name}: from the start of a new page load to the first paint`, loaded);
  }

  // 60 pixels per frame, as a wheel that is turned all the time; and jumps across the session.
  await page.goto('about:blank');
  await page.goto(`${origin}/#/s/${long.id}/30000`);
  await page.locator('.row').first().waitFor();
  const scroll = (count) => new Promise((done) => {
    const step = () => {
      scrollBy({ top: 60, behavior: 'instant' });
      if ((count -= 1) > 0) requestAnimationFrame(step);
      else done();
    };
    requestAnimationFrame(step);
  });
  report('frame while scrolling 60 px per frame', await frames(page, scroll, 900));
  const jump = async (count) => {
    for (let n = 0; n < count; n += 1) {
      scrollTo({ top: document.documentElement.scrollHeight * ((n * 0.37) % 1), behavior: 'instant' });
      await new Promise((done) => setTimeout(done, 100));
    }
  };
  report('frame while jumping anywhere, ten times a second', await frames(page, jump, 40));

  // Keys that are typed while 5,000 pieces of text arrive at once.
  const words = Array.from({ length: 5000 }, (_, n) => h.text(`word${n} `, { delta: true, message: 'm' }));
  const burst = await h.playedSession(daemon, [h.wait(3000), ...words, { hang: true }], { settle: false });
  await page.goto(`${origin}/#/s/${burst.id}`);
  await page.getByLabel('Message', { exact: true }).click();
  const watch = () => new Promise((done) => {
    const look = () => (document.querySelector('.row.reply')?.textContent.includes('word4999') ? done() : requestAnimationFrame(look));
    look();
  });
  const gaps = frames(page, watch, null);
  const keys = [];
  let over = false;
  gaps.then(() => (over = true));
  while (!over) {
    const began = performance.now();
    await page.keyboard.press('x');
    keys.push(performance.now() - began);
    await new Promise((done) => setTimeout(done, 20));
  }
  report('frame during a burst of 5,000 deltas', await gaps);
  report('key during the burst, including the driver', keys);
  console.log(`load after: ${loadavg().map((it) => it.toFixed(2)).join(' ')}`);
});
