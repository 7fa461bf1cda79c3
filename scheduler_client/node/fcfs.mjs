// First come, first served, in JavaScript, over the hpcosim protocol (../../protocol/README.md).
//
//     node fcfs.mjs tcp://127.0.0.1:28080 [SCENARIO [TIMEOUT_S [KEYS]]]
//
// KEYS is the folder of this client's keys, for a server with keys.
// Exit status 0: the simulation ended. Exit status 1: an error, with a line on standard error.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { Decoder, Encoder } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const RESEND_MS = 5000;

// ---- msgpack ----

// Job numbers are BigInts: they go up to 2^63 - 1, and a Number is exact only up to 2^53.
const encoder = new Encoder({ useBigInt64: true });
const decoder = new Decoder({ useBigInt64: true });

function integer(value, name) {
  if (!["number", "bigint"].includes(typeof value) || !Number.isInteger(Number(value))) {
    throw new Error(`invalid message from the server: field "${name}" is not an integer`);
  }
  return BigInt(value);
}

function list(value, name) {
  if (!Array.isArray(value)) {
    throw new Error(`invalid message from the server: field "${name}" is not a list`);
  }
  return value;
}

// ---- The connection ----

// Sends a request and returns its reply. Resends the request while there is no reply, and drops
// duplicate replies (specification, section 6). A DEALER can resend, a REQ cannot.
async function exchange(socket, request) {
  const body = encoder.encode(request);
  for (let sends = 0; sends * RESEND_MS < 1000 * timeoutS; sends++) {
    await socket.send(body);
    for (;;) {
      let frames;
      try {
        frames = await socket.receive();
      } catch (error) {
        if (error.code === "EAGAIN") break;
        throw error;
      }
      const reply = decoder.decode(frames.at(-1));
      if (isReplyTo(reply, request)) return reply;
    }
  }
  throw new Error(`no reply from ${address} within ${timeoutS} s: no server, or a paused session`);
}

// Returns whether a message is the reply to the request; throws if it is not a valid reply.
function isReplyTo(reply, request) {
  switch (reply?.type) {
    case "error":
      throw new Error(`the server rejected the request: ${reply.message}`);
    case "welcome":
      return request.type === "hello";
    case "events":
    case "simulation_ended":
      return integer(reply.seq, "seq") === BigInt(request.seq ?? 0);
    default:
      throw new Error("invalid reply from the server: wrong message type");
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
    this.running = new Map(); // jobs by number; place: [node, held cores] for each node
    this.submitted = 0;
  }

  // This policy ignores all other kinds of events, known or unknown (section 8).
  apply(event) {
    if (event.type === "job_submitted") {
      this.queue.push({
        id: integer(event.job_id, "job_id"),
        cores: Number(integer(event.cores, "cores")),
        placement: event.placement ?? "cores",
        order: this.submitted++,
      });
    } else if (event.type === "job_completed") {
      const id = integer(event.job_id, "job_id");
      // A job that waits ends too, for example because its user cancels it.
      if (!this.release(id)) this.queue = this.queue.filter((job) => job.id !== id);
    } else if (event.type === "decision_rejected" && event.decision === "allocate_job") {
      const job = this.release(integer(event.job_id, "job_id"));
      if (job) this.queue.push(job); // it waits again
      this.queue.sort((a, b) => a.order - b.order);
    }
  }

  release(id) {
    const job = this.running.get(id);
    for (const [node, cores] of job?.place ?? []) this.free[node] += cores;
    this.running.delete(id);
    return job;
  }

  // Starts jobs in the order of submission until one does not fit.
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

  // Returns the lowest-numbered suitable nodes for a job, with the cores that it holds on each
  // (section 5.1); null: it does not fit.
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

// ---- The main loop ----

async function schedule(socket, scenario) {
  const nonce = randomBytes(8).toString("hex"); // identifies a resent hello
  const hello = { type: "hello", versions: [1], client: "fcfs", nonce, scenario };
  const welcome = await exchange(socket, hello);
  if (integer(welcome.version, "version") !== 1n) {
    throw new Error("the server chose a protocol version that was not offered; expected 1");
  }
  const cluster = new Cluster(welcome.platform);
  let decisions = []; // the first request has none
  for (let seq = 1; ; seq++) {
    const request = { type: "decisions", session: welcome.session, seq, decisions };
    const reply = await exchange(socket, request);
    if (reply.type === "simulation_ended") {
      if (reply.results_error) throw new Error(String(reply.results_error));
      return;
    }
    for (const event of list(reply.events, "events")) cluster.apply(event);
    decisions = cluster.decide();
  }
}

// The options of a socket with the keys in a folder; none without a folder.
function curve(folder) {
  if (!folder) return {};
  const key = (file, line) => {
    const found = readFileSync(`${folder}/${file}`, "utf8").match(`${line} = "(.{40})"`);
    if (!found) throw new Error(`${folder}/${file}: expected a line with ${line}`);
    return found[1];
  };
  return {
    curvePublicKey: key("client.key_secret", "public-key"),
    curveSecretKey: key("client.key_secret", "secret-key"),
    curveServerKey: key("server.key", "public-key"),
  };
}

const [address, scenario = "", timeoutS = 60, keys = ""] = process.argv.slice(2);
if (!address || !(timeoutS > 0)) {
  console.error("usage: node fcfs.mjs ADDRESS [SCENARIO [TIMEOUT_S [KEYS]]]");
  process.exit(2);
}
const times = { linger: 0, receiveTimeout: RESEND_MS, sendTimeout: RESEND_MS };
let socket;
try {
  socket = new Dealer({ ...times, ...curve(keys) });
  socket.connect(address);
  await schedule(socket, scenario);
} catch (error) {
  // The message can contain any text: replace control characters.
  console.error(`error: ${error.message.replace(/\p{Cc}/gu, "?")}`);
  process.exitCode = 1;
} finally {
  socket?.close();
}
