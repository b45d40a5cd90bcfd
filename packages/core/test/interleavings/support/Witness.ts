import {
  type Board,
  type FileId,
  type Job,
  type JobId,
  type OutputFile,
  ownerOfBlob,
  type UploadId,
} from "@kiln/core/domain"
import type { Claim, Completion, CreateOutcome, FencedOutcome } from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import type { Adapters } from "./Adapters.ts"
import type { VirtualClock } from "./VirtualClock.ts"

/** The holder of a job or an upload, according to the responses of the store. */
interface Hand {
  readonly by: string
  readonly token: number
  /** Store time, exclusive. */
  endsAt: number
  /** How the holder ended it. */
  ended: string | undefined
}

/** What a process was told about switches and prices. */
export interface BoardRead {
  readonly by: string
  readonly board: Board
  /** Store time. */
  readonly at: number
}

export interface Completed {
  readonly by: string
  readonly jobId: JobId
  readonly token: number
  readonly files: ReadonlyArray<OutputFile>
}

/**
 * Observes every step at the stores when it happens, before its response is sent. It checks the invariants that hold in every
 * order, and keeps violations, because a worker would survive an exception.
 */
export interface Witness {
  readonly violations: Array<string>
  /** Events that only some orders produce, in the words of the races. */
  readonly events: Set<string>
  readonly completions: Array<Completed>
  readonly accepted: Array<Job>
  readonly fileIds: Set<FileId>
  readonly boardReads: Array<BoardRead>
  /** The adapters as one process uses them. */
  readonly watch: (by: string, adapters: Adapters) => Adapters
}

/** `truth` are the stores themselves, without any bug planted before them. */
export const makeWitness = (truth: Adapters, storeClock: VirtualClock): Witness => {
  const now = () => storeClock.clock.currentTimeMillisUnsafe()
  const violations: Array<string> = []
  const events = new Set<string>()
  const completions: Array<Completed> = []
  const accepted: Array<Job> = []
  const fileIds = new Set<FileId>()
  const boardReads: Array<BoardRead> = []
  const hands = new Map<JobId | UploadId, Hand>()
  const received = new Set<UploadId>()
  const must = (holds: boolean, what: string) => void (holds || violations.push(what))

  const taken = (by: string, id: JobId | UploadId, token: number, leaseMs: number) => {
    const before = hands.get(id)
    if (before !== undefined) {
      must(token > before.token, `${by} got the token ${token} for ${id} after ${before.token}`)
      const open = before.ended === undefined
      must(!open || before.endsAt <= now(), `${by} took ${id} while ${before.by} had it`)
      if (open && before.by !== by) events.add(`${by} took over from ${before.by}`)
    }
    hands.set(id, { by, token, endsAt: now() + leaseMs, ended: undefined })
  }

  /** A fenced write went through. */
  const wrote = (by: string, verb: string, id: JobId | UploadId, token: number): Hand | undefined => {
    const hand = hands.get(id)
    const holds = hand !== undefined && hand.ended === undefined && hand.token === token
    must(holds, `${by} wrote ${verb} with the token ${token}`)
    return holds ? hand : undefined
  }
  /** Does the same for a write that ends the claim. Returns whether this write did: a repeat writes nothing. */
  const ended = (by: string, verb: string, id: JobId | UploadId, token: number): boolean => {
    const before = hands.get(id)
    if (before !== undefined && before.token === token && before.by === by && before.ended === verb) return false
    const hand = wrote(by, verb, id, token)
    if (hand !== undefined) hand.ended = verb
    return true
  }
  const extended = (by: string, verb: string, id: JobId | UploadId, token: number, leaseMs: number) => {
    const hand = wrote(by, verb, id, token)
    if (hand !== undefined) hand.endsAt = now() + leaseMs
  }
  const allEnded =
    (by: string, verb: string) =>
    <Item extends { readonly jobId: JobId; readonly token: number }>(
      items: ReadonlyArray<Item>,
      outcomes: ReadonlyArray<FencedOutcome>,
    ): ReadonlyArray<Item> =>
      items.filter(({ jobId, token }, index) => {
        events.add(`${by} ${verb} ${outcomes[index]}`)
        return outcomes[index] === "Written" && ended(by, verb, jobId, token)
      })

  /** Blob first, row second. */
  const named = (blobKey: string) =>
    Effect.matchEffect(truth.blobs.open(blobKey), {
      onSuccess: () => Effect.void,
      onFailure: () => Effect.sync(() => must(false, `a row names ${blobKey}, which does not exist`)),
    })

  const created = (outcomes: ReadonlyArray<CreateOutcome>) => {
    for (const outcome of outcomes) if (outcome._tag === "Created") accepted.push(outcome.job)
  }
  const claimed = (by: string, claims: ReadonlyArray<Claim> = []) => {
    for (const { job, leaseRemainingMs, token } of claims) taken(by, job.id, token, leaseRemainingMs)
  }

  const completed = (
    by: string,
    items: ReadonlyArray<Completion>,
    outcomes: ReadonlyArray<FencedOutcome>,
  ): Effect.Effect<void> => {
    const written = allEnded(by, "completeJobs")(items, outcomes)
    for (const { files, jobId, token } of written) {
      must(!completions.some((one) => one.jobId === jobId), `${jobId} was completed twice`)
      completions.push({ by, jobId, token, files })
      for (const { id } of files) fileIds.add(id)
    }
    return Effect.forEach(
      written.flatMap(({ files }) => files),
      ({ blobKey }) => named(blobKey),
      { discard: true },
    )
  }

  const watchJobs = (by: string, jobs: Adapters["jobs"]): Adapters["jobs"] => ({
    ...jobs,
    createJobs: (items) => Effect.tap(jobs.createJobs(items), (outcomes) => Effect.sync(() => created(outcomes))),
    createAndClaimJobs: (items, request) =>
      Effect.tap(jobs.createAndClaimJobs(items, request), (answer) =>
        Effect.sync(() => {
          created(answer.created)
          claimed(by, answer.claimed?.claims)
          if ((answer.claimed?.claims.length ?? 0) > 0) events.add(`${by} claims with a creation`)
        }),
      ),
    claimJobs: (request) => Effect.tap(jobs.claimJobs(request), ({ claims }) => Effect.sync(() => claimed(by, claims))),
    extendLeases: (items) =>
      Effect.tap(jobs.extendLeases(items), (outcomes) =>
        Effect.sync(() => {
          for (const [index, { jobId, token }] of items.entries()) {
            const outcome = outcomes[index]
            events.add(`${by} extendLeases ${outcome?._tag}`)
            if (outcome?._tag === "Extended") extended(by, "extendLeases", jobId, token, outcome.leaseRemainingMs)
          }
        }),
      ),
    checkpointJobs: (items) =>
      Effect.tap(jobs.checkpointJobs(items), (outcomes) =>
        Effect.sync(() => {
          for (const [index, { jobId, token }] of items.entries())
            if (outcomes[index] === "Written") wrote(by, "checkpointJobs", jobId, token)
        }),
      ),
    completeJobs: (items) => Effect.tap(jobs.completeJobs(items), (outcomes) => completed(by, items, outcomes)),
    completeAndClaimJobs: (items, request) =>
      Effect.tap(jobs.completeAndClaimJobs(items, request), (answer) => {
        claimed(by, answer.claimed?.claims)
        if ((answer.claimed?.claims.length ?? 0) > 0) events.add(`${by} claims with a completion`)
        return completed(by, items, answer.completed)
      }),
    failJobs: (items) =>
      Effect.tap(jobs.failJobs(items), (outcomes) => Effect.sync(() => allEnded(by, "failJobs")(items, outcomes))),
    deferJobs: (items) =>
      Effect.tap(jobs.deferJobs(items), (outcomes) => Effect.sync(() => allEnded(by, "deferJobs")(items, outcomes))),
    releaseJobs: (items) =>
      Effect.tap(jobs.releaseJobs(items), (outcomes) =>
        Effect.sync(() => allEnded(by, "releaseJobs")(items, outcomes)),
      ),
    eraseJobs: (items) =>
      Effect.tap(jobs.eraseJobs(items), (outcomes) =>
        Effect.sync(() => {
          for (const { _tag } of outcomes) events.add(`${by} eraseJobs ${_tag}`)
        }),
      ),
  })

  const watchUploads = (by: string, uploads: Adapters["uploads"]): Adapters["uploads"] => ({
    ...uploads,
    claimUpload: (request) =>
      Effect.tap(uploads.claimUpload(request), (outcome) =>
        Effect.sync(() => {
          if (outcome._tag === "Claimed") taken(by, request.uploadId, outcome.token, request.leaseDurationMs)
        }),
      ),
    extendUpload: (transfer) =>
      Effect.tap(uploads.extendUpload(transfer), (outcome) =>
        Effect.sync(() => {
          const { leaseDurationMs, token, uploadId } = transfer
          if (outcome === "Written") extended(by, "extendUpload", uploadId, token, leaseDurationMs)
        }),
      ),
    completeUpload: (transfer) =>
      Effect.tap(uploads.completeUpload(transfer), (outcome) => {
        const { file, token, uploadId } = transfer
        events.add(`${by} completeUpload ${outcome}`)
        if (outcome !== "Written" || !ended(by, "completeUpload", uploadId, token)) return Effect.void
        must(!received.has(uploadId), `${uploadId} was received twice`)
        received.add(uploadId)
        return named(file.blobKey)
      }),
    releaseUpload: (transfer) =>
      Effect.tap(uploads.releaseUpload(transfer), (outcome) =>
        Effect.sync(() => {
          events.add(`${by} releaseUpload ${outcome}`)
          if (outcome === "Written") ended(by, "releaseUpload", transfer.uploadId, transfer.token)
        }),
      ),
  })

  const watchBlobs = (by: string, blobs: Adapters["blobs"]): Adapters["blobs"] => ({
    ...blobs,
    list: (prefix) => {
      const held = (key: string) => {
        const owner = ownerOfBlob(key)
        if (owner === undefined) return false
        const hand = hands.get(owner._tag === "Job" ? owner.jobId : owner.uploadId)
        return hand !== undefined && hand.ended === undefined && hand.token === owner.token
      }
      // Seen between blob and commit: the order in which a sweep could do harm.
      return Stream.tap(blobs.list(prefix), (key) =>
        Effect.sync(() => void (held(key) && events.add(`${by} lists an uncommitted blob of ${prefix}`))),
      )
    },
  })

  return {
    violations,
    events,
    completions,
    accepted,
    fileIds,
    boardReads,
    watch: (by, adapters) => ({
      ...adapters,
      jobs: watchJobs(by, adapters.jobs),
      uploads: watchUploads(by, adapters.uploads),
      blobs: watchBlobs(by, adapters.blobs),
      board: {
        ...adapters.board,
        // The response of a correct store.
        readBoard: Effect.map(
          Effect.zip(
            adapters.board.readBoard,
            Effect.map(truth.board.readBoard, (board) => boardReads.push({ by, board, at: now() })),
          ),
          ([board]) => board,
        ),
      },
    }),
  }
}
