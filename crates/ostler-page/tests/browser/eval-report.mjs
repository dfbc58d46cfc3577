// The report of an evaluation: one file that loads nothing, at any width, for everybody.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as h from './harness.mjs';

const example = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../../examples/eval');

/** Runs the example, and returns the file with its report. */
async function report(t) {
  const daemon = await h.startDaemon(t);
  // Some of its trials fail, so its exit code is 1.
  const ran = await daemon.shell(`ostler eval run ${example} --json || test $? = 1`);
  const file = path.join(daemon.dir, 'report.html');
  await daemon.shell(`ostler eval report ${JSON.parse(ran).run} --format html --out ${file}`);
  return pathToFileURL(file).href;
}

test('the report of an evaluation loads nothing and fits', async (t) => {
  const url = await report(t);
  for (const [theme, width] of [['light', 1280], ['dark', 1280], ['light', 390]]) {
    const page = await h.newPage(t, { theme, width });
    const requests = [];
    page.on('request', (request) => request.url() === url || requests.push(request.url()));
    await page.goto(url);
    await page.getByText('careful').first().waitFor();
    await h.fits(page);
    await h.axe(page);
    for (const details of await page.locator('details').all()) await details.evaluate((node) => (node.open = true));
    await h.fits(page);
    await h.screenshot(page, `eval-report-${theme}-${width}`);
    assert.deepEqual(page.problems, []);
    assert.deepEqual(requests, []);
  }
});

test('every link of the report of an evaluation leads to a trial', async (t) => {
  const url = await report(t);
  const page = await h.newPage(t);
  await page.goto(url);
  const targets = await page.locator('a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  assert.ok(targets.length >= 6, `${targets.length} links`);
  for (const target of new Set(targets)) {
    assert.match(target, /^#/);
    assert.equal(await page.locator(target).count(), 1, target);
  }
  await page.locator('a[href="#trial-0"]').first().click();
  await h.until(() => page.locator('#trial-0').evaluate((node) => {
    const { top } = node.getBoundingClientRect();
    return top >= -1 && top < window.innerHeight;
  }), 'the trial in view');
  assert.deepEqual(page.problems, []);
});
