import { Engine } from "@kiln/core/effect"
import { isFinished, type Job, type JobId, type Principal } from "@kiln/core/domain"
import { collectOrphans, pruneOnce } from "@kiln/core/worker"
import { assert } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { principal } from "../../support/harness.ts"
import { type Process, speechOf } from "./Process.ts"
import type { World } from "./World.ts"

export const leaseDurationMs = 30_000

/** The job as the store has it. */
export const jobIn = (world: World, jobId: JobId, who: Principal = principal()): Effect.Effect<Job> =>
  Effect.map(Effect.orDie(world.stores.jobs.findJobs([{ jobId, principal: who }])), ([job]) => {
    if (job === undefined) throw new Error(`${jobId} is lost`)
    return job
  })

/** Every blob there is. */
export const blobsIn = (world: World): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(
    Effect.all(["jobs", "uploads"].map((root) => Effect.orDie(Stream.runCollect(world.stores.blobs.list(root))))),
    (keys) => keys.flat().sort(),
  )

export const bytesIn = (world: World, blobKey: string): Effect.Effect<Uint8Array> =>
  Effect.gen(function* () {
    const blob = yield* world.stores.blobs.open(blobKey)
    const chunks = yield* Stream.runCollect(blob.content)
    return Uint8Array.from([...chunks].flatMap((chunk) => [...chunk]))
  }).pipe(Effect.orDie)

/** Moves the time of the stores and of these processes. */
export const pass = (world: World, ms: number, ...processes: ReadonlyArray<Process>) =>
  Effect.sync(() => {
    for (const { time } of [world, ...processes]) time.advance(ms)
  })

/** The same as one turn of a race. */
export const passes = (world: World, ms: number, ...processes: ReadonlyArray<Process>) =>
  Effect.andThen(
    world.turn(`${ms} ms pass for the stores and ${processes.map(({ name }) => name).join(", ") || "nobody"}`),
    pass(world, ms, ...processes),
  )

/** A stopped process resumes that much later, and its timers fire. */
export const wakesUp = (world: World, process: Process, ms: number) =>
  Effect.andThen(
    world.turn(`${process.name} wakes ${ms} ms later`),
    Effect.sync(() => process.time.advance(ms)),
  )

/** Lets others have that many turns first. */
export const later = (world: World, turns: number) => Effect.replicateEffect(world.turn("not yet"), turns)

/** Claims again until the job is finished, at most `times` times. A claim whose response takes as long as a lease does not count. */
export const ticks = (world: World, process: Process, jobId: JobId, times: number) =>
  Effect.gen(function* () {
    for (let tick = 0; tick < times && !isFinished(yield* jobIn(world, jobId)); tick++)
      yield* Effect.catchTag(process.tick, "StoreUnavailable", () => Effect.void)
  })

/** What every sweep there is leaves behind, done after the race. */
export const sweepAll = (process: Process) => process.does(Effect.andThen(pruneOnce, collectOrphans))

/** After the race: leases end until the job is finished, as they would in time. */
export const bringToEnd = (world: World, process: Process, jobId: JobId) =>
  Effect.gen(function* () {
    for (let leases = 0; leases < 4 && !isFinished(yield* jobIn(world, jobId)); leases++) {
      yield* pass(world, leaseDurationMs, process)
      yield* process.tick
    }
  })

/** The job is done, once, with the winner's file whole, and no other blob of a job is left after a sweep. */
export const verifyDoneOnce = (world: World, sweeper: Process, jobId: JobId, who: Principal = principal()) =>
  Effect.gen(function* () {
    const job = yield* jobIn(world, jobId, who)
    assert.deepStrictEqual([job.status, job.errorCode], ["done", null])
    const completed = world.completions.filter((one) => one.jobId === jobId)
    assert.strictEqual(completed.length, 1)
    yield* sweepAll(sweeper)
    for (const file of job.files) {
      const bytes = yield* bytesIn(world, file.blobKey)
      assert.deepStrictEqual(bytes, speechOf(completed[0]?.by ?? ""))
      assert.strictEqual(file.bytes, bytes.length)
    }
    const ofJobs = (yield* blobsIn(world)).filter((key) => key.startsWith("jobs/"))
    assert.deepStrictEqual(
      ofJobs,
      job.files.map((file) => file.blobKey),
    )
    world.events.add(`${completed[0]?.by} won`)
    return job
  })

/** Nothing the job retained is left in its row, and no file of it can be found. */
export const verifyBlank = (world: World, jobId: JobId) =>
  Effect.gen(function* () {
    const job = yield* jobIn(world, jobId)
    assert.deepStrictEqual(
      [job.status, job.retained, job.request, job.output, job.files, job.checkpoints, job.warningCode],
      ["done", "deleted", null, null, [], {}, "data_deleted"],
    )
    for (const fileId of world.fileIds) assert.isUndefined(yield* world.stores.jobs.findFile(fileId))
    const upload = job.uploadId === null ? undefined : yield* world.stores.uploads.findUpload(job.uploadId)
    if (upload !== undefined) assert.deepStrictEqual([upload.file, upload.erased], [null, true])
  })

/** What a reader finds: the right bytes, or nothing. Never a row without its blob, never half a file. */
export const read = (process: Process, jobId: JobId) =>
  process.does(
    Effect.gen(function* () {
      const engine = yield* Engine
      const job = yield* engine.getJob(principal(), jobId)
      const [named] = job.files
      if (named === undefined) return job.status
      const file = yield* engine.findFile(named.id)
      const { content } = yield* engine.openFile(file)
      const bytes = [...(yield* Stream.runCollect(content))].flatMap((chunk) => [...chunk])
      const [, by = ""] = /speech of ([A-Z])/.exec(new TextDecoder().decode(Uint8Array.from(bytes))) ?? []
      assert.deepStrictEqual(bytes, [...speechOf(by)])
      return "a file"
    }).pipe(Effect.catchTag("FileGone", () => Effect.succeed("gone"))),
  )
