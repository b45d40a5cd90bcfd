import { spawn } from "node:child_process"
import { join } from "node:path"
import { createInterface } from "node:readline"

const program = join(import.meta.dirname, "startAtRate.ts")

/** When jobs started, in milliseconds, by their rate a second. */
export type Starts = Readonly<Record<string, ReadonlyArray<number>>>

/** Runs backlogs at these rates, a second, in a number of processes for a while. Returns all starts, in order. */
export const startsAt = async (
  place: string,
  processes: number,
  rates: ReadonlyArray<number>,
  seconds: number,
): Promise<Starts> => {
  const begin = (submits: boolean) => {
    const args = [place, String(seconds), submits ? "yes" : "no", ...rates.map(String)]
    const child = spawn(process.execPath, ["--conditions=@kiln/source", program, ...args], {
      stdio: ["pipe", "pipe", "inherit"],
    })
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const next = async (): Promise<string> => {
      const { done, value } = await lines.next()
      if (done === true) throw new Error("the process ended")
      return value
    }
    return { child, next }
  }
  const children = [begin(true)]
  try {
    await children[0]?.next()
    for (let n = 1; n < processes; n++) children.push(begin(false))
    for (const { next } of children.slice(1)) await next()
    for (const { child } of children) child.stdin.write("go\n")
    const all = await Promise.all(children.map(async ({ next }) => JSON.parse(await next()) as Starts))
    return Object.fromEntries(
      rates.map((rate) => [rate, all.flatMap((starts) => starts[rate] ?? []).toSorted((a, b) => a - b)]),
    )
  } finally {
    for (const { child } of children) child.kill("SIGKILL")
  }
}

/** The default burst of a rate a second. */
const burstOf = (rate: number): number => Math.max(2, Math.ceil(rate / 10))

/** Returns the share of the allowed starts since the first that there were, without the burst at the beginning. */
export const shareOf = (starts: ReadonlyArray<number>, rate: number, seconds: number): number => {
  const [first = 0] = starts
  const count = starts.filter((at) => at < first + 1_000 * seconds).length
  return (count - burstOf(rate)) / (rate * seconds)
}
