import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import fc from "fast-check"
import { type Submitted, withSubmitted } from "@kiln/core/domain"
import { priorityOfRank, ranks } from "@kiln/core/rules"
import { JobStore, type NewJob } from "@kiln/core/ports"
import { digest, jobId, keyId, ownerOf, projectId, uploadId } from "../fixtures.ts"
import { claimArguments, compareClaims, kinds, modes, recordClaims, versions } from "./claimJobs.ts"
import type { History } from "./History.ts"
import { operation } from "./Operation.ts"
import { latest, pick, pickFrom, record } from "./pick.ts"

// Few of everything, so that histories meet: the same key, the same upload, the same instant.
const owners = [1, 2, 3].map((n) => ({ keyId: keyId(n), projectId: projectId(n === 3 ? 2 : 1) }))
export const delays = fc.constantFrom(0, 1, 400, 1_000, 3_000)
export const owner = fc.constantFrom(...owners)
export const mode = fc.constantFrom("sandbox", "sandbox", ...modes)

/** Wrong claims of a retry about its job: that it belongs to another key, or had another upload. */
type RetryOdd = "none" | "foreign" | "upload"
const retryOdds: ReadonlyArray<RetryOdd> = ["none", "none", "none", "none", "foreign", "upload"]

const itemArguments = record({
  owner,
  mode,
  kind: fc.constantFrom(...kinds),
  kindVersion: fc.constantFrom(1, 1, ...versions),
  idempotencyKey: fc.oneof({ weight: 2, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(3) }),
  fingerprint: fc.constantFrom(0, 0, 1),
  upload: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: record({ pick, foreign: fc.constantFrom(false, false, false, false, true) }) },
  ),
  maxTransfers: fc.constantFrom(2, 3),
  maxUsage: fc.constantFrom({ input_characters: 1 }, { input_characters: 3 }, { input_characters: 3 }, {}, null),
  forcedOff: fc.constantFrom([], [], ["audio"] as const),
  queueLimitMs: fc.constantFrom(2_000, 10_000, 60_000, 60_000),
  runLimitMs: fc.constantFrom(700, 2_000, 60_000),
  queueCap: fc.constantFrom(0, 0, 0, 3),
  priority: fc.oneof(
    fc.constant("normal" as const),
    fc.constantFrom(...ranks).map((rank) => priorityOfRank(rank) ?? "normal"),
  ),
  delayMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: delays }),
  kept: fc.constantFrom({}, { model: "small", deep: [{ n: 1.5 }] }),
  /** Of a job of that project, mostly one that is held and may be parked on it. */
  parent: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: pick }),
  /** Mostly jobs that are held, so that one of them may end last. */
  after: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(pick, { maxLength: 3 }) },
  ),
  unique: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    {
      weight: 2,
      arbitrary: record({
        n: fc.nat(1),
        while: fc.constantFrom<Array<NonNullable<NewJob["unique"]>["while"]>>(
          "queued",
          "queued",
          "queued",
          "unfinished",
          1_000,
        ),
        replaces: fc.constantFrom(true, true, false),
      }),
    },
  ),
  retry: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: record({ pick, odd: fc.constantFrom(...retryOdds) }) },
  ),
})

type Item = typeof itemArguments extends fc.Arbitrary<infer A> ? A : never

/** Turns a new job into a retry of an old one, mostly of one that can be retried. */
const retryFrom = ({ retry }: Item, { jobs, present, seen }: History): Partial<NewJob> => {
  if (retry === undefined) return {}
  const known = latest(jobs, retry.pick.back)
  const ever = known === undefined ? undefined : present.get(known.jobId)
  const job = pickFrom(retry.pick, { present: seen.retryable, ever: ever === undefined ? [] : [ever] })
  if (job === undefined) return { retryOf: known?.jobId ?? jobId(9_999) }
  const { keyId: key, mode: ofMode, projectId: project, uploadId: upload } = job
  return {
    retryOf: job.id,
    ...(retry.odd === "foreign"
      ? {}
      : { keyId: key, projectId: project, mode: ofMode, kind: job.kind, gate: gateOf(ofMode, job.kind) }),
    uploadId: retry.odd === "upload" ? uploadId(9_999) : upload,
  }
}

const gateOf = (of: NewJob["mode"], kind: string): NewJob["gate"] =>
  of === "live"
    ? {
        price: "svc-audio",
        meters: ["input_characters"],
        switches: ["ai", "audio"],
        liveWorker: { kind, withinMs: 2_000 },
      }
    : null

const parentFrom = ({ parent }: Item, { claims, seen }: History): Submitted => {
  const claim = parent && pickFrom(parent, { present: seen.held, ever: claims })
  return claim === undefined ? {} : { parent: { jobId: claim.jobId, step: "parts" } }
}

const prerequisitesFrom = ({ after }: Item, { claims, seen }: History): Submitted => {
  const ids = after.flatMap((each) => pickFrom(each, { present: seen.held, ever: claims })?.jobId ?? [])
  return ids.length === 0 ? {} : { after: ids }
}

const newJobFrom = (item: Item, history: History): NewJob => {
  const n = history.nextNumber++
  const upload =
    item.upload === undefined
      ? undefined
      : pickFrom(item.upload.pick, { present: history.seen.unused, ever: history.uploads })
  const mine = upload !== undefined && item.upload?.foreign === false ? upload : { ...item.owner, mode: item.mode }
  return withScope(item, {
    projectId: mine.projectId,
    keyId: mine.keyId,
    id: jobId(n),
    mode: mine.mode,
    kind: item.kind,
    kindVersion: item.kindVersion,
    request: { input: `text ${n}`, deep: [{ n }] },
    uploadId: item.upload === undefined ? null : (upload?.uploadId ?? uploadId(9_999)),
    maxTransfers: item.maxTransfers,
    idempotencyKey: item.idempotencyKey === undefined ? `fresh-${n}` : `pooled-${item.idempotencyKey}`,
    fingerprint: digest(item.fingerprint),
    priority: item.priority,
    delayMs: item.delayMs,
    metadata: withSubmitted(item.kept, { ...parentFrom(item, history), ...prerequisitesFrom(item, history) }),
    retryOf: null,
    gate: gateOf(mine.mode, item.kind),
    maxUsage: item.maxUsage,
    forcedOff: item.forcedOff,
    limits: { queueLimitMs: item.queueLimitMs, runLimitMs: item.runLimitMs },
    queueCap: item.queueCap,
    ...retryFrom(item, history),
  })
}

/** The scope of a unique job is one of its owner, mode and kind. */
const withScope = ({ unique }: Item, job: NewJob): NewJob => {
  if (unique === undefined) return job
  const { n, replaces, while: duration } = unique
  const scope = [job.projectId, job.keyId, job.mode, job.kind, n].join(" ")
  return { ...job, unique: { scope, while: duration, replaces: replaces && duration === "queued" } }
}

const newJobsFrom = (items: ReadonlyArray<Item>, history: History): ReadonlyArray<NewJob> => {
  const jobs = items.map((item) => newJobFrom(item, history))
  // Refused ones as well: they must stay unknown.
  for (const job of jobs) {
    history.jobs.push({ jobId: job.id, principal: ownerOf(job) })
    if (job.retryOf !== null) history.retries.set(job.id, job.retryOf)
  }
  return jobs
}

const someItems = fc.array(itemArguments, { minLength: 1, maxLength: 4 })

/** Jobs that a completion creates, mostly none. */
export const someFollowUps = fc.oneof(
  { weight: 3, arbitrary: fc.constant<ReadonlyArray<Item>>([]) },
  { weight: 1, arbitrary: fc.array(itemArguments, { minLength: 1, maxLength: 2 }) },
)

/** What follow-ups must not name is left out. A pooled key may be bound by another job, which then stands. */
export const followUpsFrom = (items: ReadonlyArray<Item>, history: History): ReadonlyArray<NewJob> =>
  newJobsFrom(
    items.map((item) => ({
      ...item,
      upload: undefined,
      retry: undefined,
      queueCap: 0,
      unique: undefined,
    })),
    history,
  )

export const createJobs = operation("createJobs", someItems, (items, history) => {
  const jobs = newJobsFrom(items, history)
  return Effect.flatMap(JobStore, (store) => store.createJobs(jobs))
})

/** A store that did not claim is asked to, so this may be two steps. */
export const createAndClaimJobs = operation(
  "createAndClaimJobs",
  fc.tuple(someItems, claimArguments),
  ([items, request], history) => {
    const jobs = newJobsFrom(items, history)
    return Effect.flatMap(JobStore, (store) =>
      Effect.flatMap(store.createAndClaimJobs(jobs, request), ({ claimed, created }) =>
        Effect.map(claimed === undefined ? store.claimJobs(request) : Effect.succeed(claimed), (claims) => ({
          created,
          claims,
        })),
      ),
    )
  },
  {
    atomic: false,
    compare: (expected, actual) => {
      expect(actual.created, "created").toEqual(expected.created)
      compareClaims(expected.claims, actual.claims)
    },
    record: ({ claims }, history, [, request]) => recordClaims(claims, history, request),
  },
)
