import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import { runInProcess } from "../../support/runInProcess.ts"
import { command } from "./acts.ts"
import type { Environment, Planted } from "./Planted.ts"
import { joinBlobs } from "./support.ts"

/** Uses an installation, as a server's start does. */
const useOnce = async (env: Environment): Promise<void> => {
  expect(await runInProcess(["blobs", "sweep", "--dry-run"], env)).toMatchObject({ exit: 0 })
}

export const copiesProblems: ReadonlyArray<Planted> = [
  {
    what: "a copy of a database in use",
    plant: async ({ directory, env }) => {
      await useOnce(env)
      copyFileSync(join(directory, "kiln.db"), join(directory, "copy"))
      renameSync(join(directory, "copy"), join(directory, "kiln.db"))
    },
    check: "copy",
    status: "problem",
    seen: /the database is a copy/,
    remedy: /kiln adopt --moved/,
    carryOut: [command(/kiln adopt --moved/), command(/kiln adopt --restored/)],
  },
  {
    what: "an older copy of a database in use",
    plant: async (installation) => {
      const path = join(installation.directory, "kiln.db")
      await joinBlobs(installation)
      const older = readFileSync(path)
      await joinBlobs(installation)
      for (const end of ["-wal", "-shm"]) rmSync(path + end, { force: true })
      writeFileSync(path, older)
    },
    check: "orphans",
    status: "problem",
    seen: /is behind the blob store/,
    remedy: /kiln adopt --restored/,
    carryOut: command(/kiln adopt --restored/),
  },
]
