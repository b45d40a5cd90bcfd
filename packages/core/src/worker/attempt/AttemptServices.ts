import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Engine } from "../../engine/Engine.ts"
import { Fingerprint, makePrepareJob, type PrepareJob } from "../../engine/prepareJob.ts"
import { JobEvents } from "../../engine/JobEvents.ts"
import { BlobStore, IdGenerator, JobDirectory, JobStore, MediaProbe } from "../../ports/index.ts"
import { Providers } from "../../providers/index.ts"
import { ProviderGuard } from "../../providers/ProviderGuard.ts"
import { GateWatch } from "../claiming/conditions.ts"
import type { LeaseWatch } from "./leases.ts"
import type { ReportServices } from "./ProgressReports.ts"

/** The services that attempts use, read once for all attempts of a worker. */
export interface AttemptServices extends ReportServices {
  readonly blobs: BlobStore["Service"]
  readonly ids: IdGenerator["Service"]
  readonly probe: MediaProbe["Service"]
  readonly providers: Providers["Service"]
  readonly gates: GateWatch["Service"]
  readonly guard: ProviderGuard["Service"]
  readonly watch: LeaseWatch
  readonly engine: Engine["Service"]
  readonly directory: JobDirectory["Service"]
  readonly fingerprint: Fingerprint["Service"]
  readonly prepare: PrepareJob
  readonly context: Context.Context<JobStore | JobDirectory | JobEvents>
}

export const attemptServices = Effect.fnUntraced(function* (watch: LeaseWatch) {
  const context = yield* Effect.context<
    | JobEvents
    | JobStore
    | JobDirectory
    | BlobStore
    | IdGenerator
    | MediaProbe
    | Providers
    | GateWatch
    | ProviderGuard
    | Engine
    | Fingerprint
  >()
  const services: AttemptServices = {
    store: Context.get(context, JobStore),
    blobs: Context.get(context, BlobStore),
    ids: Context.get(context, IdGenerator),
    probe: Context.get(context, MediaProbe),
    providers: Context.get(context, Providers),
    gates: Context.get(context, GateWatch),
    guard: Context.get(context, ProviderGuard),
    watch,
    events: Context.get(context, JobEvents),
    fork: Effect.runForkWith(context),
    engine: Context.get(context, Engine),
    directory: Context.get(context, JobDirectory),
    fingerprint: Context.get(context, Fingerprint),
    prepare: yield* makePrepareJob,
    context,
  }
  return services
})
