import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { describe, expect, it } from "vitest"
import { isAnyRunning } from "../src/processes.ts"

interface Started {
  readonly directories: ReadonlyArray<string>
  readonly postmaster: number
}

describe("a cluster whose process dies", () => {
  it.each(["SIGINT", "SIGTERM", "SIGKILL"] as const)("of %s leaves no server and no directory", async (signal) => {
    const script = join(import.meta.dirname, "support/startAndWait.ts")
    const child = spawn(process.execPath, ["--conditions=@kiln/source", script], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    try {
      const { value } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
      const { directories, postmaster }: Started = JSON.parse(value ?? "")
      expect(isAnyRunning([postmaster])).toBe(true)
      expect(directories.filter((path) => existsSync(path))).toHaveLength(2)
      child.kill(signal)
      await expect.poll(() => isAnyRunning([postmaster]), { timeout: 20_000 }).toBe(false)
      await expect.poll(() => directories.filter((path) => existsSync(path)), { timeout: 20_000 }).toEqual([])
    } finally {
      child.kill("SIGKILL")
    }
  })
})
