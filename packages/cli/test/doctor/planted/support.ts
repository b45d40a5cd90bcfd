import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { fixtures } from "@kiln/conformance"
import type { JobMode } from "@kiln/core/domain"
import { BlobStore, IdGenerator, JobStore, KeyDirectory, Switchboard } from "@kiln/core/ports"
import { BlobGuard } from "@kiln/core/worker"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { Stores } from "../../../src/openStores.ts"
import { changeDatabase } from "../../support/changeDatabase.ts"
import type { Installation } from "../../support/installations.ts"

export const dayMs = 86_400_000

export const createJob = (mode: JobMode = "sandbox") =>
  Effect.flatMap(JobStore, (jobs) =>
    jobs.createJobs([mode === "live" ? fixtures.newLiveJob(1, { gate: null }) : fixtures.newJob(1)]),
  )

export const claimJob = Effect.flatMap(JobStore, (jobs) =>
  jobs.claimJobs({
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
    limits: fixtures.noLimits,
    limit: 1,
    leaseDurationMs: 30_000,
    maxLostWorkers: 3,
  }),
)

export const onBoard = (change: (board: Switchboard["Service"]) => Effect.Effect<unknown, unknown>) =>
  Effect.flatMap(Switchboard, change)

export const liveKey = Effect.flatMap(KeyDirectory, (keys) =>
  keys.createKey(fixtures.newApiKey(2, { mode: "live", scopes: ["images.create"] })),
)

export const allOn = onBoard((board) => Effect.all([board.setSwitch("ai", true), board.setSwitch("audio", true)]))

export const inStores = (work: Effect.Effect<unknown, unknown, Stores>) => (installation: Installation) =>
  installation.use(Effect.asVoid(work))

/** What became ready, or whose lease ended, did so three days ago. */
export const longAgo =
  (work: Effect.Effect<unknown, unknown, Stores>, which = "true") =>
  async (installation: Installation) => {
    await installation.use(Effect.asVoid(work))
    const claimable = `claimable_at IS NOT NULL AND ${which}`
    changeDatabase(
      installation.directory,
      `UPDATE kiln_jobs SET claimable_at = ${Date.now() - 3 * dayMs} WHERE ${claimable}; UPDATE kiln_lanes SET next_at = 1`,
    )
  }

export const fileOf =
  (name: string) =>
  ({ directory }: Installation) =>
    join(directory, name)
export const database = fileOf("kiln.db")

export const putBlob = (directory: string, key: string, content: Uint8Array = Uint8Array.of(1)) =>
  Effect.runPromise(
    Effect.flatMap(BlobStore, (blobs) => blobs.put(key, Stream.succeed(content), { maxBytes: content.length })).pipe(
      Effect.provide(FileBlobStore.layer({ directory })),
    ),
  )

/** Uses the blobs, as the start of a server does. */
export const joinBlobs = ({ directory, use }: Installation): Promise<void> =>
  use(
    Effect.flatMap(BlobGuard, (guard) => guard.join).pipe(
      Effect.provide(
        BlobGuard.layer.pipe(Layer.provide(Layer.merge(FileBlobStore.layer({ directory }), IdGenerator.layer))),
      ),
    ),
  )
