// Attacks real processes with broken and hostile connections, on loopback only: `pnpm fuzz:connections --connections 100000 --seed 1`.
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { fuzz } from "../packages/http/test/connections/support/fuzz.ts"
import { shapes } from "../packages/http/test/connections/support/shapes.ts"
import { targetNames } from "../packages/http/test/connections/support/Target.ts"

const usage = `Usage: pnpm fuzz:connections [options]

  --connections N   connections to each target (2000)
  --seed N          the same seed opens the same connections (1)
  --target NAME     one target alone: ${targetNames.join(", ")}
  --only SHAPE      one shape alone: ${Object.keys(shapes).join(", ")}
  --help            this`

/** Milliseconds another client may wait for its answer, and megabytes a target may need. */
const limitMs = 250
const limitMegabytes = 300

const whole = (name: string, text: string): number => {
  const number = Number(text)
  if (Number.isSafeInteger(number) && number > 0) return number
  throw new TypeError(`--${name} must be a positive integer, not "${text}"`)
}

const known = <A extends string>(name: string, text: string | undefined, all: ReadonlyArray<A>): A | undefined => {
  const found = all.find((one) => one === text)
  if (text === undefined || found !== undefined) return found
  throw new TypeError(`--${name} must be one of: ${all.join(", ")}`)
}

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    options: {
      connections: { type: "string", default: "2000" },
      seed: { type: "string", default: "1" },
      target: { type: "string" },
      only: { type: "string" },
      help: { type: "boolean", default: false },
    },
  })
  if (values.help) return console.log(usage)
  const connections = whole("connections", values.connections)
  const seed = whole("seed", values.seed)
  const target = known("target", values.target, targetNames)
  const only = known("only", values.only, Object.keys(shapes))
  const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], {
    encoding: "utf8",
    cwd: join(import.meta.dirname, ".."),
  })
  console.log(`commit ${commit.trim()}, seed ${seed}`)
  for (const name of target === undefined ? targetNames : [target]) {
    const report = await fuzz({ target: name, connections, seed, ...(only !== undefined && { only }) })
    const { failure, overdue, peakMegabytes, probe, refused } = report
    const problems = [
      ...(failure === undefined ? [] : [failure]),
      ...(overdue + refused + probe.unanswered === 0
        ? []
        : ["connections were refused or overdue, or the other client was not answered"]),
      ...(probe.target.max < limitMs ? [] : [`another client waited for ${probe.target.max} ms`]),
      ...((peakMegabytes ?? 0) < limitMegabytes ? [] : [`it needed ${peakMegabytes} MB`]),
    ]
    console.log(`${name}: ${JSON.stringify(report)}\n${problems.length === 0 ? "unharmed" : problems.join("\n")}`)
    if (problems.length > 0) process.exitCode = 1
  }
}

try {
  await main()
} catch (error) {
  if (!(error instanceof TypeError)) throw error
  console.error(`${error.message}\n\n${usage}`)
  process.exitCode = 2
}
