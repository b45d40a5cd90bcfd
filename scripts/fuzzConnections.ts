// Attacks real processes with broken and hostile connections, on loopback only: `pnpm fuzz:connections --connections 100000 --seed 1`.
// It starts the test of the long tier that does, so that there is one set of limits.
import { spawn } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"

const usage = `Usage: pnpm fuzz:connections [options]

  --connections N   connections to each target (2000)
  --seed N          the same seed opens the same connections (1)
  --target NAME     one target alone: "kiln serve" or "Express"
  --only SHAPE      one shape alone, by its name in packages/cli/test/connections/support/shapes.ts
  --help            this`

const root = join(import.meta.dirname, "..")

const readOptions = () =>
  parseArgs({
    options: {
      connections: { type: "string", default: "2000" },
      seed: { type: "string", default: "1" },
      target: { type: "string", default: "" },
      only: { type: "string", default: "" },
      help: { type: "boolean", default: false },
    },
  }).values

const run = ({ connections, only, seed, target }: ReturnType<typeof readOptions>): void => {
  const child = spawn(
    process.execPath,
    [join(root, "scripts/testByHand.ts"), "long", "packages/cli/test/connections/connections.long.ts"],
    {
      cwd: root,
      stdio: "inherit",
      env: {
        ...process.env,
        KILN_FUZZ_CONNECTIONS: connections,
        KILN_FUZZ_SEED: seed,
        KILN_FUZZ_TARGET: target,
        KILN_FUZZ_ONLY: only,
      },
    },
  )
  child.once("exit", (code) => (process.exitCode = code ?? 1))
}

try {
  const options = readOptions()
  if (options.help) console.log(usage)
  else run(options)
} catch (error) {
  if (!(error instanceof TypeError)) throw error
  console.error(`${error.message}\n\n${usage}`)
  process.exitCode = 2
}
