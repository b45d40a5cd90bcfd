import type { JobId } from "@kiln/core/domain"
import { Effect } from "effect"
import { principal } from "../../support/harness.ts"
import type { Adapters } from "../support/Adapters.ts"
import type { Plant } from "../support/World.ts"

/** A bug, and the race in which some order of turns exposes it. */
export interface PlantedBug {
  readonly bug: string
  /** The row of docs/invariants.md. */
  readonly promise: number
  /** The beginning of the race's name. */
  readonly race: string
  /** The message of the race in that case, with the reason. */
  readonly shows: RegExp
  readonly plant: Plant
}

/** The current token of a job, whichever worker holds it. Using it disables fencing. */
export const present = <Ref extends { readonly jobId: JobId; readonly token: number }>(
  { jobs }: Adapters,
  refs: ReadonlyArray<Ref>,
) =>
  Effect.map(jobs.findJobs(refs.map(({ jobId }) => ({ jobId, principal: principal() }))), (found) =>
    refs.map((ref, index) => ({ ...ref, token: found[index]?.token ?? ref.token })),
  )

export const inJobs =
  (change: (adapters: Adapters, wait: Parameters<Plant>[1]) => Partial<Adapters["jobs"]>): Plant =>
  (adapters, wait) => ({ ...adapters, jobs: { ...adapters.jobs, ...change(adapters, wait) } })
export const inUploads =
  (change: (adapters: Adapters, wait: Parameters<Plant>[1]) => Partial<Adapters["uploads"]>): Plant =>
  (adapters, wait) => ({ ...adapters, uploads: { ...adapters.uploads, ...change(adapters, wait) } })
export const inBlobs =
  (change: (adapters: Adapters, wait: Parameters<Plant>[1]) => Partial<Adapters["blobs"]>): Plant =>
  (adapters, wait) => ({ ...adapters, blobs: { ...adapters.blobs, ...change(adapters, wait) } })
