// A well-behaved client in a process of its own: asks the target for its health again and again on one connection. What the
// target's main thread and this process waited for a processor meanwhile is the machine's doing, and told apart.
// `node probe.ts URL PID`; ends with standard input and prints one line of JSON.
import { existsSync, readFileSync } from "node:fs"
import { Agent, get } from "node:http"
import type { Latencies, ProbeReport } from "./ProbeReport.ts"

const pauseMs = 10
const agent = new Agent({ keepAlive: true })

/** Milliseconds until the response was read; infinite without a response, or with a status other than 200. */
const ask = (url: string): Promise<number> =>
  new Promise((resolve) => {
    const begunAt = performance.now()
    const request = get(url, { agent, timeout: 60_000 }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode === 200 ? performance.now() - begunAt : Infinity))
    })
    request.on("timeout", () => request.destroy()).on("error", () => resolve(Infinity))
  })

const latencies = (samples: ReadonlyArray<number>): Latencies => {
  const sorted = samples.toSorted((one, other) => one - other)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
  return { max: Math.round(at(1)), p99: Math.round(at(0.99)), p50: Math.round(at(0.5)) }
}

const [url = "", target = ""] = process.argv.slice(2)

/** Milliseconds the main thread of a process was ready to run and had no processor, so far; 0 where the system does not tell. */
const waitedMs = (pid: string | number): number => {
  const file = `/proc/${pid}/task/${pid}/schedstat`
  return existsSync(file) ? Number(readFileSync(file, "utf8").split(" ")[1]) / 1e6 : 0
}
const waited = () => waitedMs(target) + waitedMs(process.pid)

const over = new AbortController()
process.stdin.once("end", () => over.abort()).resume()
const asked: Array<number> = []
const machine: Array<number> = []
while (!over.signal.aborted) {
  const before = waited()
  asked.push(await ask(url))
  machine.push(waited() - before)
  if (asked.length === 1) process.stderr.write("probing\n")
  await new Promise((resolve) => setTimeout(resolve, pauseMs))
}
const answered = asked.filter((ms) => ms !== Infinity)
const report: ProbeReport = {
  asked: asked.length,
  unanswered: asked.length - answered.length,
  whole: latencies(answered),
  machine: latencies(machine),
  target: latencies(asked.flatMap((ms, at) => (ms === Infinity ? [] : [Math.max(0, ms - (machine[at] ?? 0))]))),
}
process.stdout.write(`${JSON.stringify(report)}\n`)
agent.destroy()
