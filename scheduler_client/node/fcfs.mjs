// First come, first served, in JavaScript, over the hpcosim protocol (../../protocol/README.md).
//
//     node fcfs.mjs tcp://127.0.0.1:28080 [SCENARIO]
//
// It ends with status 0 at simulation_ended and with 1, and a line on standard error, at
// anything that can't be.
import { randomBytes } from "node:crypto";
import { Decoder, Encoder } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const RESEND_MS = 5000;
const MOST_SENDS = 12;

// ---- msgpack ----

// Numbers of jobs go up to 2^63 - 1, past what a Number holds: they are BigInts here.
const encoder = new Encoder({ useBigInt64: true });
const decoder = new Decoder({ useBigInt64: true });

function integer(value, name) {
  if (!["number", "bigint"].includes(typeof value) || !Number.isInteger(Number(value))) {
    throw new Error(`the server's message has no right field "${name}"`);
  }
  return BigInt(value);
}

function list(value, name) {
  if (!Array.isArray(value)) throw new Error(`the server's message has no right list "${name}"`);
  return value;
}

// ---- The wire ----

// Sends a request until its answer comes (specification, section 6). A DEALER may send again,
// which a REQ may not. Answers to requests that were sent twice are passed over.
async function ask(socket, request) {
  const body = encoder.encode(request);
  for (let sends = 0; sends < MOST_SENDS; sends++) {
    await socket.send(body);
    for (;;) {
      let frames;
      try {
        frames = await socket.receive();
      } catch (error) {
        if (error.code === "EAGAIN") break;
        throw error;
      }
      const answer = decoder.decode(frames.at(-1));
      if (answers(answer, request)) return answer;
    }
  }
  throw new Error("the server does not answer");
}

// Tells whether this answers the request, and throws where no answer may look so.
function answers(answer, request) {
  switch (answer?.type) {
    case "error":
      throw new Error(`the server refuses: ${answer.message}`);
    case "welcome":
      return request.type === "hello";
    case "events":
    case "simulation_ended":
      return integer(answer.seq, "seq") === BigInt(request.seq ?? 0);
    default:
      throw new Error("the server's answer is no message, or answers something else");
  }
}

// ---- The policy ----

class Cluster {
  constructor(platform) {
    this.capacity = []; // cores by node
    for (const group of list(platform?.nodes, "nodes")) {
      const processors = list(group.processors, "processors");
      const cores = processors.reduce((sum, p) => sum + Number(integer(p.cores, "cores")), 0);
      for (let count = integer(group.count, "count"); count > 0n; count--) {
        this.capacity.push(cores);
      }
    }
    this.free = [...this.capacity];
    this.queue = []; // waiting jobs, in the order of submission
    this.running = new Map(); // jobs by number; place: [node, cores held] of each of its nodes
    this.submitted = 0;
  }

  // Events of other kinds, known or not, change nothing for this policy (section 9).
  apply(event) {
    if (event.type === "job_submitted") {
      this.queue.push({
        id: integer(event.job_id, "job_id"),
        cores: Number(integer(event.cores, "cores")),
        placement: event.placement ?? "cores",
        order: this.submitted++,
      });
    } else if (event.type === "job_completed") {
      this.release(integer(event.job_id, "job_id"));
    } else if (event.type === "decision_rejected" && event.decision === "allocate_job") {
      const job = this.release(integer(event.job_id, "job_id"));
      if (job) this.queue.push(job); // it waits on, at its old place
      this.queue.sort((a, b) => a.order - b.order);
    }
  }

  release(id) {
    const job = this.running.get(id);
    for (const [node, cores] of job?.place ?? []) this.free[node] += cores;
    this.running.delete(id);
    return job;
  }

  // Starts jobs in the order of their submission until one finds no room.
  decide() {
    const decisions = [];
    while (this.queue.length && (this.queue[0].place = this.find(this.queue[0]))) {
      const job = this.queue.shift();
      this.running.set(job.id, job);
      for (const [node, cores] of job.place) this.free[node] -= cores;
      const nodes = job.place.map(([node]) => node);
      decisions.push({ type: "allocate_job", job_id: job.id, nodes });
    }
    return decisions;
  }

  // Returns the lowest-numbered nodes that can have the job now, and the cores it then holds
  // (section 5.1); null: there are none.
  find(job) {
    const place = [];
    let missing = job.cores;
    for (let node = 0; node < this.free.length && missing > 0; node++) {
      const free = this.free[node];
      const whole = job.placement === "whole_nodes";
      if (!free || (whole && free < this.capacity[node])) continue;
      if (job.placement === "one_node" && free < job.cores) continue;
      place.push([node, whole ? free : Math.min(free, missing)]);
      missing -= free;
    }
    return missing > 0 ? null : place;
  }
}

// ---- The loop ----

async function schedule(socket, scenario) {
  const nonce = randomBytes(8).toString("hex"); // tells a hello sent again from a second one
  const hello = { type: "hello", versions: [1], client: "fcfs", nonce, scenario };
  const welcome = await ask(socket, hello);
  if (integer(welcome.version, "version") !== 1n) {
    throw new Error("the server chose a version that was not offered");
  }
  const cluster = new Cluster(welcome.platform);
  let decisions = []; // none come with the first request
  for (let seq = 1; ; seq++) {
    const request = { type: "decisions", session: welcome.session, seq, decisions };
    const answer = await ask(socket, request);
    if (answer.type === "simulation_ended") return;
    for (const event of list(answer.events, "events")) cluster.apply(event);
    decisions = cluster.decide();
  }
}

const [address, scenario = ""] = process.argv.slice(2);
if (!address) {
  console.error("usage: node fcfs.mjs ADDRESS [SCENARIO]");
  process.exit(2);
}
const socket = new Dealer({ linger: 0, receiveTimeout: RESEND_MS, sendTimeout: RESEND_MS });
try {
  socket.connect(address);
  await schedule(socket, scenario);
} catch (error) {
  // It may quote anything: nothing in it is to act on a terminal.
  console.error(`error: ${error.message.replace(/\p{Cc}/gu, "?")}`);
  process.exitCode = 1;
} finally {
  socket.close();
}
