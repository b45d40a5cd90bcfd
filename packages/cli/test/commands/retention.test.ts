import { fixtures } from "@kiln/conformance"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { uploadBlobKey } from "@kiln/core/domain"
import { BlobStore, JobStore, UploadStore } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { seedEveryState } from "../support/copiedRecords.ts"
import { installations, sqliteInstallation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const { jobId } = fixtures

describe("kiln retention run", () => {
  it("--dry-run counts what is due and changes nothing; run removes exactly that; again, nothing is due", async () => {
    await using installation = await sqliteInstallation()
    const { env } = installation
    await installation.useLongAgo(seedEveryState)
    // The job with an upload keeps its file until the data goes.
    const key = uploadBlobKey(fixtures.uploadId(1), 1)
    const files = FileBlobStore.layer({ directory: installation.directory })
    const onFiles = <A>(work: Effect.Effect<A, unknown, BlobStore>) => Effect.runPromise(Effect.provide(work, files))
    await onFiles(
      Effect.flatMap(BlobStore, (blobs) => blobs.put(key, Stream.succeed(Uint8Array.of(1)), { maxBytes: 9 })),
    )
    const left = () =>
      onFiles(Effect.flatMap(BlobStore, (blobs) => Stream.runCollect(blobs.list("uploads")))).then((keys) => [...keys])

    const due = await jsonOf(["retention", "run", "--dry-run"], env)
    // Of jobs 4, 5, 6 and 8 the data, of 9 only the record; uploads 2, 3 and 5 were never used, 6 was erased.
    expect(due).toEqual({
      dry_run: true,
      expired_data: 4,
      deleted_jobs: 5,
      expired_uploads: 3,
      deleted_uploads: 1,
      bytes: expect.any(Number),
      purges: expect.any(Number),
    })
    expect(due.bytes).toBeGreaterThan(0)
    expect(await jsonOf(["retention", "run", "--dry-run"], env)).toEqual(due)
    expect(await left()).toEqual([key])

    const done = await jsonOf(["retention", "run"], env)
    // Uploads that expire now are deleted at the next run, because their records are erased first.
    expect(done).toEqual({ ...due, dry_run: false, purges: done.purges })
    expect(await left()).toEqual([])
    expect((await jsonOf(["job", "list"], env)).jobs.map((job: { status: string }) => job.status).toSorted()).toEqual(
      ["processing", "processing", "processing", "queued", "queued", "queued"].toSorted(),
    )
    expect(await jsonOf(["retention", "run", "--dry-run"], env)).toMatchObject({
      expired_data: 0,
      deleted_jobs: 0,
      expired_uploads: 0,
      bytes: 0,
    })
  })

  it("keeps what the settings keep", async () => {
    await using installation = await sqliteInstallation()
    await installation.useLongAgo(seedEveryState)
    const env = { ...installation.env, KILN_DATA_RETENTION: "0", KILN_JOB_RETENTION: "0" }
    const dry = await jsonOf(["retention", "run", "--dry-run"], env)
    expect(dry).toMatchObject({ expired_data: 0, deleted_jobs: 0, deleted_uploads: 0, expired_uploads: 3 })
    const { stdout } = await runInProcess(["retention", "run", "--dry-run"], env)
    expect(stdout).toMatch(
      /^RETENTION +PERIOD +COUNT\ndata of finished jobs +kept indefinitely +0\nrecords of finished jobs +kept indefinitely +0\nunused uploads +when they expire +3\n/,
    )
    expect(stdout).toMatch(/\d+ bytes of files; \d+ earlier removals to retry; nothing was removed \(--dry-run\)\n$/)
    await jsonOf(["retention", "run"], env)
    expect(await jsonOf(["job", "show", jobId(4)], env)).toMatchObject({ data: "kept" })
  })

  it("needs a database", async () => {
    await using installation = await sqliteInstallation()
    const env = { KILN_DATA_DIR: `${installation.directory}/elsewhere` }
    for (const args of [
      ["retention", "run"],
      ["retention", "run", "--dry-run"],
    ])
      expect(await refusalOf(args, env, 1)).toContain(
        `there is no database ${installation.directory}/elsewhere/kiln.db`,
      )
  })
})

describe.each(installations)("kiln retention run on %s", (_name, open) => {
  it("counts by the store's own time", async () => {
    await using installation = await open()
    await installation.use(seedEveryState)
    const { env } = installation
    expect(await jsonOf(["retention", "run", "--dry-run"], env)).toMatchObject({
      expired_data: 0,
      deleted_jobs: 0,
      expired_uploads: 0,
      deleted_uploads: 0,
      bytes: 0,
    })
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    const short = { ...env, KILN_DATA_RETENTION: "1s", KILN_JOB_RETENTION: "1s" }
    const due = await jsonOf(["retention", "run", "--dry-run"], short)
    expect(due).toMatchObject({ expired_data: 4, deleted_jobs: 5, expired_uploads: 0, deleted_uploads: 1 })
    // The sum of what the records of jobs 4 and 8 name.
    const bytes = await installation.use(
      Effect.gen(function* () {
        const { job } = { job: yield* (yield* UploadStore).findUpload(fixtures.uploadId(1)) }
        const [four] = yield* (yield* JobStore).findJobs([
          { jobId: jobId(4), principal: fixtures.ownerOf(fixtures.newJob(4)) },
        ])
        return (job?.file?.bytes ?? 0) + (four?.files ?? []).reduce((sum, file) => sum + file.bytes, 0)
      }),
    )
    expect(bytes).toBeGreaterThan(0)
    expect(due.bytes).toBe(bytes)
    expect(await jsonOf(["retention", "run"], short)).toMatchObject({ expired_data: 4, deleted_jobs: 5, bytes })
  })
})
