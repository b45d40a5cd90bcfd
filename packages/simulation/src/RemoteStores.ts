import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type Job, StoreUnavailable } from "@kiln/core/domain"
import {
  type ChunkWrite,
  type ClaimResult,
  type CreateOutcome,
  type FencedOutcome,
  JobDirectory,
  JobStore,
  type ReadVerb,
  Switchboard,
  UploadStore,
  type WriteVerb,
} from "@kiln/core/ports"
import type { Network, Remote } from "./Network.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Coverage } from "./Coverage.ts"
import type { TransferBooks } from "./TransferBooks.ts"
import type { Watch } from "./Watch.ts"

/** Description of a claim in violations. */
export interface ClaimNews {
  readonly claimed: (process: SimulatedProcess, job: Job) => void
  /** The process has been told that the claim is gone. */
  readonly lost: (process: SimulatedProcess, jobId: Job["id"], token: number) => void
}

interface Line {
  readonly process: SimulatedProcess
  readonly network: Network
  readonly remote: Remote
  readonly watch: Watch
  readonly coverage: Coverage
}

const lost =
  (operation: string) =>
  (cause: string): StoreUnavailable =>
    new StoreUnavailable({ operation, cause })

/** A reading verb over the network. Its effect need not be checked. */
const reading =
  ({ network, process, remote }: Line) =>
  <A>(operation: ReadVerb, step: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A, StoreUnavailable> =>
    network.call(process, { remote, operation, step, lost: lost(operation) })

/** A writing verb over the network; `seen` checks its effect. */
const writing =
  ({ network, process, remote }: Line) =>
  <A>(
    operation: WriteVerb,
    step: Effect.Effect<A, StoreUnavailable>,
    seen: (answer: A) => void,
  ): Effect.Effect<A, StoreUnavailable> =>
    network.call(process, {
      remote,
      operation,
      step,
      lost: lost(operation),
      observe: (exit) => {
        if (Exit.isSuccess(exit)) seen(exit.value)
      },
    })

/** For verbs that change neither jobs nor uploads, the only watched records. */
const unwatched = (): void => undefined

const messageVerbs = (
  line: Line,
  store: JobStore["Service"],
): Pick<JobStore["Service"], "signalJobs" | "listSignals" | "readChunks" | "countChunks"> => ({
  signalJobs: (items) =>
    writing(line)("signalJobs", store.signalJobs(items), (outcomes) => line.watch.signaled(items, outcomes)),
  listSignals: (jobId) => reading(line)("listSignals", store.listSignals(jobId)),
  readChunks: (items) => reading(line)("readChunks", store.readChunks(items)),
  countChunks: (jobId) => reading(line)("countChunks", store.countChunks(jobId)),
})

const purgingVerbs = (line: Line, store: JobStore["Service"]) => {
  const [read, write] = [reading(line), writing(line)]
  return {
    listPurges: (limit) => read("listPurges", store.listPurges(limit)),
    nextPurges: (limit) => read("nextPurges", store.nextPurges(limit)),
    postponePurges: (purges) => write("postponePurges", store.postponePurges(purges), unwatched),
    hastenPurges: Effect.suspend(() => write("hastenPurges", store.hastenPurges, unwatched)),
    publishRetention: (rules) => write("publishRetention", store.publishRetention(rules), unwatched),
    readRetention: Effect.suspend(() => read("readRetention", store.readRetention)),
    confirmPurges: (purges) => write("confirmPurges", store.confirmPurges(purges), unwatched),
    findOrphans: (blobs) => read("findOrphans", store.findOrphans(blobs)),
  } satisfies Partial<JobStore["Service"]>
}

const appending = ({ watch }: Line, store: JobStore["Service"], items: ReadonlyArray<ChunkWrite>) =>
  Effect.tap(store.appendChunks(items), (outcomes) => Effect.sync(() => watch.appended(items, outcomes)))

type Ref = { readonly jobId: Job["id"]; readonly token: number }

const answersTo = (items: ReadonlyArray<Ref>, outcomes: ReadonlyArray<FencedOutcome>) =>
  items.map(({ jobId, token }, at) => ({ jobId, token, outcome: outcomes[at] ?? "LeaseLost" }))

/** The job store as one process sees it over its line. */
export const remoteJobStore = (line: Line, store: JobStore["Service"], news: ClaimNews): JobStore["Service"] => {
  const { process, watch } = line
  const [read, write] = [reading(line), writing(line)]
  /** Runs in the process once the response has arrived. */
  const tellLost = (items: ReadonlyArray<Ref>, isLost: (at: number) => boolean): void => {
    for (const [at, { jobId, token }] of items.entries()) if (isLost(at)) news.lost(process, jobId, token)
  }
  type FencedVerb = "checkpointJobs" | "appendChunks" | "completeJobs" | "failJobs" | "deferJobs" | "releaseJobs"
  const fenced = (verb: FencedVerb, items: ReadonlyArray<Ref>, step: ReturnType<JobStore["Service"]["releaseJobs"]>) =>
    write(verb, step, (outcomes) => watch.fenced(verb, answersTo(items, outcomes))).pipe(
      Effect.tap((outcomes) => Effect.sync(() => tellLost(items, (at) => outcomes[at] === "LeaseLost"))),
    )
  return JobStore.of({
    // Many processes use it here, whatever it is built on.
    capabilities: { ...store.capabilities, multiProcess: true },
    ...creatingAndClaiming(line, store, news),
    findJobs: (items) => read("findJobs", store.findJobs(items)),
    pollJobs: (items) => read("pollJobs", store.pollJobs(items)),
    findByIdempotencyKey: (keyId, key) => read("findByIdempotencyKey", store.findByIdempotencyKey(keyId, key)),
    findFile: (fileId) => read("findFile", store.findFile(fileId)),
    extendLeases: (items) =>
      write("extendLeases", store.extendLeases(items), (outcomes) => {
        const outcomeOf = (at: number) => (outcomes[at]?._tag === "Extended" ? "Written" : "LeaseLost")
        const answers = items.map(({ jobId, token }, at) => ({ jobId, token, outcome: outcomeOf(at) }) as const)
        watch.fenced("extendLeases", answers)
      }).pipe(Effect.tap((outcomes) => Effect.sync(() => tellLost(items, (at) => outcomes[at]?._tag === "LeaseLost")))),
    checkpointJobs: (items) => fenced("checkpointJobs", items, store.checkpointJobs(items)),
    appendChunks: (items) => fenced("appendChunks", items, appending(line, store, items)),
    completeJobs: (items) => fenced("completeJobs", items, store.completeJobs(items)),
    completeAndClaimJobs: (items, request) =>
      write("completeAndClaimJobs", store.completeAndClaimJobs(items, request), ({ claimed, completed }) => {
        // A lapsed attempt ends too late, and the same call claims its job again.
        const again = new Set(claimed?.claims.map(({ job }) => job.id))
        const answers = Map.groupBy(answersTo(items, completed), ({ jobId }) => again.has(jobId))
        watch.fenced("completeJobs", answers.get(false) ?? [])
        if (claimed === undefined) return
        claimedBy(line, news)(claimed)
        watch.fenced("completeJobs", answers.get(true) ?? [])
        if (claimed.claims.length > 0) line.coverage.note("a completion claims for a full worker")
      }).pipe(Effect.tap(({ completed }) => Effect.sync(() => tellLost(items, (at) => completed[at] === "LeaseLost")))),
    failJobs: (items) => fenced("failJobs", items, store.failJobs(items)),
    deferJobs: (items) => fenced("deferJobs", items, store.deferJobs(items)),
    releaseJobs: (items) => fenced("releaseJobs", items, store.releaseJobs(items)),
    ...messageVerbs(line, store),
    cancelJobs: (ids) => write("cancelJobs", store.cancelJobs(ids), () => watch.touched("cancelJobs", ids)),
    rescheduleJobs: (items) =>
      write("rescheduleJobs", store.rescheduleJobs(items), () =>
        watch.touched(
          "rescheduleJobs",
          items.map(({ jobId }) => jobId),
        ),
      ),
    checkClaims: (items) => read("checkClaims", store.checkClaims(items)),
    ...sweepingVerbs(line, store),
    eraseJobs: (items) =>
      write("eraseJobs", store.eraseJobs(items), () => {
        for (const { jobId } of items) {
          watch.touched("eraseJobs", [jobId])
          const uploadId = watch.jobs.get(jobId)?.uploadId
          if (uploadId !== undefined && uploadId !== null) watch.uploadTouched("eraseJobs", uploadId)
        }
      }),
    listCharges: (page) => write("listCharges", store.listCharges(page), unwatched),
    ...purgingVerbs(line, store),
    readLineage: Effect.suspend(() => read("readLineage", store.readLineage)),
    writeLineage: (version, document) => write("writeLineage", store.writeLineage(version, document), unwatched),
  })
}

const claimedBy =
  ({ process, watch }: Line, news: ClaimNews) =>
  ({ abandoned, claims }: ClaimResult): void => {
    watch.touched("claimJobs", [...claims.map(({ job }) => job.id), ...abandoned])
    for (const { job } of claims) news.claimed(process, job)
  }

/** Verbs that create or claim jobs, together or apart. */
const creatingAndClaiming = (
  line: Line,
  store: JobStore["Service"],
  news: ClaimNews,
): Pick<JobStore["Service"], "createJobs" | "createAndClaimJobs" | "claimJobs"> => {
  const { coverage, watch } = line
  const write = writing(line)
  const claimed = claimedBy(line, news)
  const created = (outcomes: ReadonlyArray<CreateOutcome>): void => {
    for (const outcome of outcomes) {
      coverage.note(`create: ${outcome._tag}`)
      if (outcome._tag === "Created") watch.created(outcome.job)
    }
  }
  return {
    createJobs: (jobs) => write("createJobs", store.createJobs(jobs), created),
    createAndClaimJobs: (jobs, request) =>
      write("createAndClaimJobs", store.createAndClaimJobs(jobs, request), (answer) => {
        created(answer.created)
        if (answer.claimed === undefined) return
        claimed(answer.claimed)
        if (answer.claimed.claims.length > 0) coverage.note("a creation claims for an idle worker")
      }),
    claimJobs: (request) => write("claimJobs", store.claimJobs(request), claimed),
  }
}

/** Verbs that select the records to change; afterwards, all records are checked. */
const sweepingVerbs = (
  line: Line,
  store: JobStore["Service"],
): Pick<JobStore["Service"], "expireJobs" | "expireData" | "deleteJobs"> => {
  const write = writing(line)
  return {
    expireJobs: (limit) =>
      write("expireJobs", store.expireJobs(limit), (expired) => {
        everythingAfter(line, "expireJobs")(expired)
        // Jobs that were taken back are not named.
        for (const [id, job] of line.watch.jobs) if (job.held) line.watch.touched("expireJobs", [id])
      }),
    expireData: (olderThanMs, limit) =>
      write("expireData", store.expireData(olderThanMs, limit), everythingAfter(line, "expireData")),
    deleteJobs: (olderThanMs, limit) =>
      write("deleteJobs", store.deleteJobs(olderThanMs, limit), everythingAfter(line, "deleteJobs")),
  }
}

const everythingAfter =
  ({ watch }: Line, verb: WriteVerb) =>
  (done: { readonly count: number } | ReadonlyArray<Job["id"]> | number): void => {
    const count = typeof done === "number" ? done : "count" in done ? done.count : done.length
    if (count > 0) watch.everything(verb)
  }

/** The directory of jobs as one process sees it. */
export const remoteJobDirectory = (line: Line, store: JobDirectory["Service"]): JobDirectory["Service"] => {
  const read = reading(line)
  return JobDirectory.of({
    listJobs: (page) => read("listJobs", store.listJobs(page)),
    countJobs: (question) => read("countJobs", store.countJobs(question)),
    measureQueue: (question) => read("measureQueue", store.measureQueue(question)),
    readJobs: (ids) => read("readJobs", store.readJobs(ids)),
    listAttempts: (id) => read("listAttempts", store.listAttempts(id)),
    findPlace: (id) => read("findPlace", store.findPlace(id)),
    listFinished: (question) => read("listFinished", store.listFinished(question)),
    listKinds: Effect.suspend(() => read("listKinds", store.listKinds)),
    listWaits: (ids) => read("listWaits", store.listWaits(ids)),
  })
}

/** The upload store as one process sees it. */
export const remoteUploadStore = (
  line: Line,
  store: UploadStore["Service"],
  transfers: TransferBooks,
): UploadStore["Service"] => {
  const { coverage, watch } = line
  const [read, write] = [reading(line), writing(line)]
  return UploadStore.of({
    keptBytes: (...args) => read("keptBytes", store.keptBytes(...args)),
    createUploads: (uploads) =>
      write("createUploads", store.createUploads(uploads), (made) => {
        for (const upload of made) if (upload !== "UploadsFull") watch.uploadTouched("createUploads", upload.id)
      }),
    findUpload: (id) => read("findUpload", store.findUpload(id)),
    claimUpload: (request) =>
      write("claimUpload", store.claimUpload(request), (outcome) => {
        const before = watch.uploads.get(request.uploadId)
        // Before the books on transfers: two concurrent ones violate the record's rules, whatever the cause.
        watch.uploadTouched("claimUpload", request.uploadId)
        if (outcome._tag === "Refused") coverage.note("a second transfer is refused")
        if (outcome._tag === "Claimed") {
          if (before !== undefined && before.claimedUntil !== null)
            coverage.note("a transfer takes over from a lost one")
          transfers.began(line.process, before, outcome.token, request.uploadId)
        }
      }),
    extendUpload: (transfer) =>
      write("extendUpload", store.extendUpload(transfer), () =>
        watch.uploadTouched("extendUpload", transfer.uploadId, transfer.token),
      ),
    completeUpload: (transfer) =>
      write("completeUpload", store.completeUpload(transfer), () =>
        watch.uploadTouched("completeUpload", transfer.uploadId, transfer.token),
      ),
    releaseUpload: (transfer) =>
      write("releaseUpload", store.releaseUpload(transfer), () =>
        watch.uploadTouched("releaseUpload", transfer.uploadId, transfer.token),
      ),
    expireUploads: (limit) =>
      write("expireUploads", store.expireUploads(limit), everythingAfter(line, "expireUploads")),
    deleteUploads: (olderThanMs, limit) =>
      write("deleteUploads", store.deleteUploads(olderThanMs, limit), everythingAfter(line, "deleteUploads")),
    findUploadOrphans: (blobs) => read("findUploadOrphans", store.findUploadOrphans(blobs)),
  })
}

/** The switchboard as one process sees it. */
export const remoteSwitchboard = (line: Line, store: Switchboard["Service"]): Switchboard["Service"] => {
  const [read, write] = [reading(line), writing(line)]
  return Switchboard.of({
    readBoard: Effect.suspend(() => read("readBoard", store.readBoard)),
    pauseKind: (kind, paused) => write("pauseKind", store.pauseKind(kind, paused), unwatched),
    limitProject: (projectId, concurrency) =>
      write("limitProject", store.limitProject(projectId, concurrency), unwatched),
    setSwitch: (name, on) => write("setSwitch", store.setSwitch(name, on), unwatched),
    setPrice: (price) => write("setPrice", store.setPrice(price), unwatched),
    activatePrice: (name, active) => write("activatePrice", store.activatePrice(name, active), unwatched),
    listPrices: Effect.suspend(() => read("listPrices", store.listPrices)),
    setSpendCap: (owner, cap) => write("setSpendCap", store.setSpendCap(owner, cap), unwatched),
    listSpending: Effect.suspend(() => read("listSpending", store.listSpending)),
    publishWorker: (worker) => write("publishWorker", store.publishWorker(worker), unwatched),
    listWorkers: Effect.suspend(() => read("listWorkers", store.listWorkers)),
  })
}
