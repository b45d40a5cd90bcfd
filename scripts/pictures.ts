// Makes the pictures of the README and the guides: the pages by Chromium, as the system tests see them, in both color schemes; and a
// cast of `kiln try` from a real run.
import { spawnSync } from "node:child_process"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

/** The suites that take pictures. They fail if one is too large. */
const suites = ["packages/dashboard/test/page.system.ts", "packages/pages/test/playground.system.ts"]

const run = (...args: ReadonlyArray<string>): void => {
  const env = { ...process.env, KILN_SCREENSHOTS: "write" }
  const { status } = spawnSync(process.execPath, args, { cwd: root, env, stdio: "inherit" })
  if (status !== 0) throw new Error(`${args.join(" ")} failed`)
}

run(join(root, "node_modules/vitest/vitest.mjs"), "run", "--mode", "system", ...suites, "-t", "is pictured")
run("--conditions=@kiln/source", join(root, "packages/cli/test/cast/main.ts"))
