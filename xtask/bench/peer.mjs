// The Node SDK's side of `cargo xtask bench`: `peer.mjs ROW DIR RUNS SDK` prints samples.

const [row, dir, runs, sdk] = process.argv.slice(2);
const { query } = await import(sdk);

async function run(agent, each = () => {}) {
  const options = {
    pathToClaudeCodeExecutable: `${dir}/${agent}`,
    includePartialMessages: true,
    cwd: dir,
  };
  for await (const message of query({ prompt: "hello", options })) each(message);
}

if (row === "cold") {
  await run("short");
} else if (row === "latency") {
  const samples = [];
  await run("latency", (message) => {
    const now = performance.timeOrigin + performance.now();
    const sent = message.event?.delta?.text ?? "";
    if (/^\d+$/.test(sent)) samples.push(now * 1e3 - Number(sent) / 1e3);
  });
  console.log(samples.slice(100).map((sample) => sample.toFixed(1)).join("\n"));
} else {
  await run(row);
  for (let done = 0; done < Number(runs); done += 1) {
    const begin = performance.now();
    await run(row);
    console.log((performance.now() - begin).toFixed(3));
  }
}
