// The pictures of docs/page.md and of the README, taken from a real daemon with the fake agent:
//
//   node crates/ostler-page/tests/browser/bench/pictures.mjs
//
// They are written to target/page-screenshots. Look at them before you copy them to docs/images.

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import * as h from '../harness.mjs';

const BEFORE = `    pub fn parse(input: &str) -> Result<Amount, ParseError> {
        let value: f64 = input.trim().parse()?;
        Ok(Amount { cents: (value * 100.0) as i64 })
    }`;
const AFTER = `    /// Parses an amount such as \`12.34\`, exactly.
    pub fn parse(input: &str) -> Result<Amount, ParseError> {
        let (whole, fraction) = input.trim().split_once('.').unwrap_or((input, "0"));
        let whole: i64 = whole.parse()?;
        let cents: i64 = format!("{fraction:0<2}")[..2].parse()?;
        Ok(Amount { cents: whole * 100 + cents })
    }`;

const json = JSON.stringify;
const use = (id, name, input, output, ms = 30) => [
  `tool-use ${id} ${name} ${json(input)}`, `sleep ${ms}`, `tool-result ${id} ${output.replaceAll('\n', '\\n')}`,
];

/** The main session: read, search, edit, test, answer. */
const FIX = [
  'read-user', 'init', 'sleep 200',
  'thinking Amounts are parsed as floating-point numbers. 0.29 * 100 is 28.999…, so a cent is lost.\\nI should parse the digits instead.',
  ...use('t1', 'Grep', { pattern: 'fn parse', path: 'src' }, 'src/amount.rs:14:    pub fn parse(input: &str)', 120),
  ...use('t2', 'Read', { file_path: 'src/amount.rs' }, BEFORE, 60),
  'sleep 250',
  'text The amount goes through `f64`, which cannot represent most decimal fractions. I will parse the digits.',
  ...use('t3', 'Edit', { file_path: 'src/amount.rs', old_string: BEFORE, new_string: AFTER }, 'The file has been updated.', 40),
  ...use('t4', 'Bash', { command: 'cargo test --package ledger amount' }, 'running 6 tests\n......\ntest result: ok. 6 passed; 0 failed', 900),
  'sleep 300',
  `text ${[
    '**Fixed.** `Amount::parse` now reads the digits, so `0.29` is 29 cents instead of 28.',
    '',
    '- Six tests pass, among them one for each amount of the report.',
    '- Amounts with more than two digits after the point are cut, as before.',
    '',
    'Should they be rejected instead? That would be one more line:',
    '',
    '```rust',
    'if fraction.len() > 2 { return Err(ParseError::TooPrecise); }',
    '```',
  ].join('\\n')}`,
  'result Fixed.', 'read-until-eof',
].join('\n');

const said = (words, tools = []) => ['read-user', 'init', ...tools, `text ${words}`, `result ${words}`, 'read-until-eof'].join('\n');

/** Asks for permission to run a command. */
const ASK = [
  'read-user', 'init', 'text The release needs a tag. I will create and push it.',
  `control-request c1 Bash ${json({ command: 'git tag --sign v1.4.0 -m "Release 1.4.0" && git push origin v1.4.0', description: 'Tag the release' })}`,
  'wait-control', 'hang',
].join('\n');

async function furnish(daemon) {
  const dir = (name) => {
    const each = path.join(daemon.work, name);
    mkdirSync(each, { recursive: true });
    return each;
  };
  const start = async (script, prompt, fields) => {
    h.fakeClaude(daemon, script);
    const session = await h.newSession(daemon, { agent: 'claude', prompt, permissions: 'all', ...fields });
    return fields.waits ? session : h.settled(daemon, session.id);
  };
  const { waits: _, ...ledger } = { dir: dir('ledger') };
  await start(said('The flaky test waited for a port that was taken.', use('a', 'Bash', { command: 'cargo nextest run' }, 'ok')), 'Find out why the port test is flaky', { dir: dir('gateway'), labels: { team: 'platform' } });
  await start(said('Updated all three.'), 'Update the dependencies and the changelog', { dir: dir('website'), once: true });
  await start(said('There are two: in the parser and in the cache.'), 'Look for integer overflows in the decoder', { dir: dir('codec'), labels: { audit: 'q4' } });
  await h.playedSession(daemon, [h.turnEnded({ status: 'failed', cause: 'rate_limit', message: 'The limit of the account is reached.' })], { prompt: 'Translate the error messages', dir: dir('website'), once: true });
  const main = await start(FIX, 'Amounts lose a cent: 0.29 becomes 28 cents. Please fix it, and add a test.', ledger);
  h.fakeClaude(daemon, ASK);
  const asking = await h.newSession(daemon, { agent: 'claude', prompt: 'Tag and publish release 1.4.0', dir: dir('gateway'), permissions: 'ask', name: 'release' });
  await h.pending(daemon);
  h.fakeClaude(daemon, ['read-user', 'init', 'text I am reading the schema first.', 'tool-use b Bash {"command":"cargo bench"}', 'hang'].join('\n'));
  const working = await h.newSession(daemon, { agent: 'claude', prompt: 'Measure the new index before and after', dir: dir('codec'), permissions: 'all' });
  await h.until(async () => (await daemon.api.get(`/v1/sessions/${working.id}`)).state === 'working', 'work');
  return { main, asking };
}

/** Age in minutes, tokens by kind, and cost of the sessions, newest first. */
const NATURAL = [
  [2, [6_120, 41_800, 3_900, 1_340], 0.18], [4, [3_480, 22_350, 2_100, 760], 0.12], [26, [9_842, 118_204, 12_610, 4_127], 0.41],
  [95, [], null], [190, [21_400, 402_118, 30_020, 9_870], 1.62], [1_500, [7_015, 64_300, 5_120, 2_208], 0.24], [2_980, [15_330, 210_740, 18_400, 6_035], 0.87],
];

/** How much slower a model is than the fake agent. */
const SLOWNESS = 30;

/** Makes directories, ages and figures look like those of a person's day: the fake agent is too fast and too cheap. */
async function natural(page, daemon) {
  const { sessions } = await daemon.api.get('/v1/sessions?all=true');
  const looks = new Map(sessions.map((session, n) => {
    const [age, counts, cost] = NATURAL[n];
    const [input, cache_read, cache_write, output] = counts;
    const usage = counts.length === 0 ? session.usage
      : { input, cache_read, cache_write, output, tokens: counts.reduce((sum, it) => sum + it), cost_usd: cost, cost_source: 'reported' };
    const created_at = new Date(Date.now() - age * 60_000).toISOString();
    return [session.id, { was: session.created_at, look: { usage, created_at } }];
  }));
  const adorn = (it) => ({ ...it, ...looks.get(it.id)?.look });
  // Times of a session: later by as much as it is older, and as slow as a model.
  const slow = (id, key, value) => {
    const { was, look } = looks.get(id) ?? {};
    if (key === 'duration_ms') return value * SLOWNESS;
    if (key === 'total' && typeof value === 'number') return Math.round((value / 143) * look.usage.tokens);
    if (!was || typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value)) return value;
    return new Date(Date.parse(look.created_at) + (Date.parse(value) - Date.parse(was)) * SLOWNESS).toISOString();
  };
  await page.route(/\/v1\/(sessions|approvals|usage)/, async (route) => {
    const response = await route.fetch();
    const text = (await response.text()).replaceAll(daemon.work, '/home/mara/src').replaceAll('"agent":"mock"', '"agent":"codex"');
    if (!/json/.test(response.headers()['content-type'] ?? '')) return route.fulfill({ response, body: text });
    const [, id, part] = /\/v1\/sessions\/([^/?]+)\/(\w+)/.exec(route.request().url()) ?? [];
    const json = JSON.parse(text, (key, value) => (part ? slow(id, key, value) : value));
    const body = json.sessions ? { ...json, sessions: json.sessions.map(adorn) } : adorn(json);
    return route.fulfill({ response, json: body });
  });
}

test('pictures', async (t) => {
  const daemon = await h.startDaemon(t);
  const { main } = await furnish(daemon);
  for (const [name, size] of [['light', { width: 1280, height: 860 }], ['dark', { theme: 'dark', width: 1180, height: 620 }], ['narrow', { width: 390, height: 844 }]]) {
    const page = await h.newPage(t, size);
    await natural(page, daemon);
    await h.login(page, daemon, { approve: true });
    await page.reload();
    await page.locator('.sessions tbody tr').nth(5).waitFor();
    await page.locator('#live').getByText('Live').waitFor({ state: 'attached' });
    await h.screenshot(page, `sessions-${name}`);
    await h.visit(page, `/s/${main.id}`);
    await page.locator('.row.turn_ended').waitFor();
    await h.screenshot(page, `session-end-${name}`);
    await page.locator('.row.tool', { hasText: 'Edit' }).locator('summary').click();
    await page.locator('.row.tool table').waitFor();
    await page.getByRole('slider').waitFor();
    await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
    await h.screenshot(page, `session-${name}`);
    await h.visit(page, `/s/${main.id}/changes`);
    await page.locator('.changes table').waitFor();
    await h.screenshot(page, `changes-${name}`);
    await h.visit(page, '/usage');
    await page.locator('.usagetable tbody tr').first().waitFor();
    await h.screenshot(page, `usage-${name}`);
    await h.visit(page, '/approvals');
    await page.getByRole('button', { name: /^Review/ }).click();
    await page.getByRole('dialog').locator('button[aria-disabled=false]').first().waitFor();
    await h.screenshot(page, `approval-${name}`);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.close();
  }
});
