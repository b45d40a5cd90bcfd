import { createHash } from "node:crypto"
import { cpSync, globSync, mkdirSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fixtures } from "@kiln/conformance"
import { idBody, jobBlobKey } from "@kiln/core/domain"
import { JobStore } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { blobFile } from "../../support/blobFiles.ts"
import type { Installation } from "../../support/installations.ts"
import { runInProcess } from "../../support/runInProcess.ts"
import { command, printedIn, set, start } from "./acts.ts"
import type { Act, Planted } from "./Planted.ts"
import { claimJob, createJob, joinBlobs, putBlob } from "./support.ts"

const { jobId } = fixtures
const content = Buffer.from("speech")
const keyOfFile = jobBlobKey(jobId(1), 1, "audio")

/** Finishes a job with a file. */
const finishWithFile = async (installation: Installation): Promise<void> => {
  await installation.use(
    Effect.gen(function* () {
      yield* createJob()
      const { claims } = yield* claimJob
      const sha256 = createHash("sha256").update(content).digest("hex")
      yield* (yield* JobStore).completeJobs(
        claims.map((claim) => {
          const file = { ...fixtures.outputFile(claim, 1), blobKey: keyOfFile, bytes: content.length, sha256 }
          return fixtures.completionOf(claim, { files: [file] })
        }),
      )
    }),
  )
  await putBlob(installation.directory, keyOfFile, content)
}

/** Copies the file from the backup, as the remedy says. */
const restoreFile: Act = async (scene) => {
  const { directory } = scene.installation
  const backup = `${directory}.backup`
  scene.started.defer(() => rmSync(backup, { recursive: true, force: true }))
  const printed = printedIn(scene, /blobs\/jobs\/shard-\*\/ID\.1\.audio\.blob/, { ID: idBody(jobId(1)) })
  const [at = ""] = globSync(printed, { cwd: backup })
  cpSync(join(backup, at), join(directory, at))
}

export const filesProblems: ReadonlyArray<Planted> = [
  {
    what: "a bucket without credentials",
    plant: () => ({
      KILN_BLOBS: "s3://bucket/kiln?region=eu-central-1&endpoint=http://127.0.0.1:9",
      AWS_ACCESS_KEY_ID: "AKIA",
      AWS_SHARED_CREDENTIALS_FILE: "/nowhere",
      AWS_CONFIG_FILE: "/nowhere",
    }),
    check: "blobs",
    status: "problem",
    seen: /set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY/,
    remedy: /correct KILN_BLOBS or its credentials/,
    carryOut: set({ KILN_BLOBS: undefined }),
  },
  {
    what: "files of another installation",
    plant: async ({ directory }) => {
      const other = join(directory, "other")
      await putBlob(other, "installation/0123456789abcdef0123456789abcdef")
      return { KILN_BLOBS: `file:${other}` }
    },
    check: "installation",
    status: "problem",
    seen: /belongs to another installation/,
    remedy: /correct DATABASE_URL, KILN_DATA_DIR or KILN_BLOBS/,
    carryOut: set({ KILN_BLOBS: undefined }),
  },
  {
    what: "a directory of files that is not mounted",
    plant: ({ directory }) => rmSync(join(directory, "blobs"), { recursive: true }),
    check: "installation",
    status: "warning",
    seen: /not marked yet/,
    remedy: /mounted place/,
    carryOut: start(),
  },
  {
    what: "a file that is missing",
    plant: async (installation) => {
      const { directory, env } = installation
      await finishWithFile(installation)
      expect(await runInProcess(["backup", `${directory}.backup`], env)).toMatchObject({ exit: 0 })
      rmSync(blobFile(directory, keyOfFile))
    },
    check: "blobs",
    status: "problem",
    seen: /fil_0+1: its blob is missing \(jobs\//,
    remedy: /restore them from a backup/,
    carryOut: restoreFile,
  },
  {
    what: "files without a record",
    plant: ({ directory }) => putBlob(directory, jobBlobKey(jobId(9), 1, "audio")).then(() => undefined),
    check: "orphans",
    status: "warning",
    seen: /1 file kept although the database has no record/,
    remedy: /see whether this is the newest database/,
    notCarriedOut: "nothing is to be done after a restore",
  },
  {
    what: "files of an installation in use that are somewhere else",
    plant: async (installation) => {
      const { directory } = installation
      await joinBlobs(installation)
      mkdirSync(join(directory, "old"))
      renameSync(join(directory, "blobs"), join(directory, "old/blobs"))
    },
    check: "installation",
    status: "problem",
    seen: /has no marker of this installation/,
    remedy: /kiln blobs copy --from OLD --to NEW/,
    carryOut: [
      command(/kiln blobs claim/),
      command(/kiln blobs copy --from OLD --to NEW/, ({ installation: { directory } }) => ({
        OLD: `file:${join(directory, "old")}`,
        NEW: `file:${directory}`,
      })),
      async ({ installation: { directory }, printed }) => {
        expect(printed).toContain("mount it")
        rmSync(join(directory, "blobs"), { recursive: true, force: true })
        renameSync(join(directory, "old/blobs"), join(directory, "blobs"))
      },
    ],
  },
]
