import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { describe, expect, it } from "vitest"
import { binaries, runAs } from "../src/binaries.ts"
import { labDirectory } from "../src/labDirectory.ts"

const user = runAs()
const temporary = (directory: string) => ({
  directory,
  [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
})

describe("binaries", () => {
  it("run where they were installed, as a user other than root", () => {
    using lab = temporary(labDirectory(user))
    const bin = binaries(lab.directory, user)
    expect(bin).toMatch(/node_modules.*native\/bin$/)
    expect(user.uid ?? process.getuid?.()).not.toBe(0)
  })

  // As in a clone below /root. Other users have no directory that only they can enter.
  it.runIf(process.getuid?.() === 0)("are copied out of a directory that only root can enter", () => {
    using lab = temporary(labDirectory(user))
    using hidden = temporary(mkdtempSync(join(tmpdir(), "hidden-")))
    const installed = join(hidden.directory, "native")
    cpSync(dirname(binaries(lab.directory, user)), installed, { recursive: true, verbatimSymlinks: true })
    const bin = binaries(lab.directory, user, installed)
    expect(bin).toBe(join(lab.directory, "native/bin"))
    expect(execFileSync(join(bin, "postgres"), ["--version"], { ...user, encoding: "utf8" })).toContain("PostgreSQL")
  })

  it("are copied and made executable if necessary", () => {
    using lab = temporary(labDirectory(user))
    using other = temporary(mkdtempSync(join(tmpdir(), "plain-")))
    chmodSync(other.directory, 0o755)
    const installed = join(other.directory, "native")
    cpSync(dirname(binaries(lab.directory, user)), installed, { recursive: true, verbatimSymlinks: true })
    for (const name of ["initdb", "postgres", "pg_ctl"]) chmodSync(join(installed, "bin", name), 0o644)
    expect(binaries(lab.directory, user, installed)).toBe(join(lab.directory, "native/bin"))
  })
})
