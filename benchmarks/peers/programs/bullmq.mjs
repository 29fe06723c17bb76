// Runs one role of BullMQ's program, with the words and the reports of harness.py. The working directory has BullMQ.

import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";

const require = createRequire(path.join(process.cwd(), "package.json"));
const { Queue, Worker } = require("bullmq");
const AT_ONCE = 50;
const BATCH = 1000;
const STEADY = 0.1;
const TEXT = "x".repeat(75);
const WARM_UP = -1;
const address = new URL(process.env.PEER_URL);
const connection = { host: address.hostname, port: Number(address.port), maxRetriesPerRequest: null };
const jobOptions = { removeOnComplete: true, removeOnFail: 1000 };
const [role, ...words] = process.argv.slice(2);
const report = (line) => process.stdout.write(line + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const cpuUs = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

async function work(mode, total) {
  const seen = new Set();
  const times = [];
  let runs = 0;
  let start, cpu, from;
  let reported = false;
  const tell = (figures) => {
    if (!reported) report(JSON.stringify({ jobs: seen.size, runs, times, ...figures }));
    reported = true;
  };
  const count = (number) => {
    seen.add(number);
    runs += 1;
    if (mode === "drain" && start === undefined && seen.size >= total * STEADY) {
      [start, cpu, from] = [process.hrtime.bigint(), cpuUs(), seen.size];
    }
    if (seen.size < total) return;
    if (mode !== "drain") return tell({});
    const jobs = total - from;
    tell({ per_s: (jobs / Number(process.hrtime.bigint() - start)) * 1e9, cpu_us: (cpuUs() - cpu) / jobs });
  };
  process.stdin.resume();
  process.stdin.on("end", () => {
    tell({});
    setTimeout(() => process.exit(0), 50);
  });
  const worker = new Worker(
    "bench",
    async (job) => {
      const { number, text } = job.data;
      if (number < 0) {
        if (mode !== "drain") report("ready");
        return;
      }
      if (mode === "picks") times.push(Number(process.hrtime.bigint() - BigInt(text)));
      if (mode === "due") times.push((performance.timeOrigin + performance.now()) * 1e6);
      count(number);
    },
    { connection, concurrency: 100 },
  );
  worker.on("error", (error) => console.error(error.message));
}

async function send(total, dueMs) {
  const queue = new Queue("bench", { connection, defaultJobOptions: jobOptions });
  const add = (number, text) => queue.add("noop", { number, text });
  await add(WARM_UP, TEXT);
  const start = process.hrtime.bigint();
  const cpu = cpuUs();
  let next = 0;
  if (role === "single") {
    for (; next < total; next++) await add(next, TEXT);
  } else if (role === "tasks") {
    const task = async () => {
      while (next < total) await add(next++, TEXT);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, task));
  } else {
    for (; next < total; next += BATCH) {
      const delay = role === "later" ? { delay: Math.max(dueMs - Date.now(), 0) } : {};
      const numbers = Array.from({ length: Math.min(BATCH, total - next) }, (_, place) => next + place);
      await queue.addBulk(numbers.map((number) => ({ name: "noop", data: { number, text: TEXT }, opts: delay })));
    }
  }
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  report(JSON.stringify({ jobs: total, seconds, cpu_us: (cpuUs() - cpu) / total }));
  await queue.close();
}

async function sendPicks(total) {
  const queue = new Queue("bench", { connection, defaultJobOptions: jobOptions });
  await queue.add("noop", { number: WARM_UP, text: "0" });
  const lines = readline.createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once("line", resolve));
  lines.close();
  for (let number = 0; number < total; number++) {
    await sleep(20 + Math.random() * 40);
    await queue.add("noop", { number, text: String(process.hrtime.bigint()) });
  }
  report(JSON.stringify({ jobs: total }));
  await queue.close();
}

if (role === "work") await work(words[0], Number(words[1]));
else if (role === "setup") report("{}");
else if (role === "picks") await sendPicks(Number(words[0]));
else await send(Number(words[0]), Number(words[1] ?? 0));
