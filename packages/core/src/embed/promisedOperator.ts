import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import {
  type KeyId,
  requireFlag,
  requireNumber,
  requireOneOf,
  requireOptions,
  type SpendOwner,
  type WaitingFor,
} from "../domain/index.ts"
import { Operator, redeliverJob } from "../engine/index.ts"
import { inSpan } from "../engine/spans.ts"
import { installedKinds, switchesOf } from "../kinds/installedKinds.ts"
import type { Kind } from "../kinds/KindDefinition.ts"
import type { LedgerEntry, LedgerPage, LedgerPart } from "../ports/Ledger.ts"
import { adoptCopy } from "../worker/index.ts"
import {
  adoptionOptions,
  countQuestion,
  listQuery,
  periodOptions,
  priceOptions,
  projectAskedFor,
  projectLimitOptions,
  queueQuestion,
  requestOptions,
  retryOptions,
  spendCapOptions,
} from "./checkOptions.ts"
import { bulkVerbs, checkFilter, labelsAskedFor, listedJob, queryOf, requireDate } from "./bulkVerbs.ts"
import type { EngineRuntime } from "./EngineRuntime.ts"
import { shown } from "./jobVerbs.ts"
import { idOf } from "./toJobResult.ts"
import type {
  ListedCharge,
  ListedCharges,
  OperatorVerbs,
  ProjectLimits,
  SpendCapOwner,
  WaitingReason,
} from "./OperatorVerbs.ts"

/**
 * Returns the operator's methods as promises. Methods with plain arguments and results are passed through; the others convert
 * times and jobs.
 */
export const promisedOperator = <K extends Kind>({ context, run }: EngineRuntime): OperatorVerbs<K> => {
  const operator = Context.get(context, Operator)
  const list: OperatorVerbs<K>["list"] = async (query = {}) => {
    checkFilter("list()", query, listQuery)
    const { after, limit } = query
    const page = Effect.flatMap(queryOf(query), (asked) =>
      operator.list({ ...asked, after, ...(limit !== undefined && { limit }) }),
    )
    return run(Effect.map(page, ({ jobs, next }) => ({ jobs: jobs.map(listedJob), next })))
  }
  return {
    list,
    async *listAll(query = {}) {
      let after: string | undefined
      do {
        const page = await list({ ...query, ...(after !== undefined && { after }) })
        yield* page.jobs
        after = page.next
      } while (after !== undefined)
    },
    ...readers({ context, run }),
    cancel: (job) => run(operator.cancel(idOf(job))),
    retry: async (job, options = {}) => {
      requireOptions("retry()", options, retryOptions)
      if (options.from !== undefined) requireOneOf("from", options.from, ["start"])
      if ("request" in options && options.request === undefined)
        throw new TypeError("request is undefined; leave the option out to retry with the same request")
      return run(Effect.flatMap(operator.retry(idOf(job), options), (accepted) => shown(accepted.job)))
    },
    redeliver: (job) => run(Effect.asVoid(inSpan("Operator.redeliver", redeliverJob(idOf(job))))),
    ...bulkVerbs({ context, run }),
    pause: (kind) => run(operator.pause(kind)),
    resume: (kind) => run(operator.resume(kind)),
    board: () => run(operator.board),
    setSwitch: async (name, on) => {
      requireOneOf("switch", name, switchesOf(await run(installedKinds)))
      if (typeof on !== "boolean") throw new TypeError("setSwitch() expects true or false")
      return run(operator.setSwitch(name, on))
    },
    setPrice: async (price) => {
      requireOptions("setPrice()", price, priceOptions)
      requireFlag("active", price.active)
      return run(operator.setPrice(price))
    },
    limitProject: async (project, limits) =>
      run(operator.limitProject(projectAskedFor(project), concurrencyOf(limits))),
    setSpendCap: async (owner, cap) => {
      const id = spendOwner(owner)
      if (cap === null) return run(operator.setSpendCap(id, null))
      requireOptions("setSpendCap()", cap, spendCapOptions)
      const { currency, day = null, month = null } = cap
      return run(operator.setSpendCap(id, { currency, day, month }))
    },
    listSpending: () => run(operator.listSpending),
    listCharges: (period) => {
      requireOptions("listCharges()", period, periodOptions)
      const { from, to } = period
      requireDate("from", from)
      requireDate("to", to)
      return listedCharges({ from: from.getTime(), to: to.getTime() }, (page) => run(operator.listCharges(page)))
    },
    adoptCopy: async (options) => {
      requireOptions("adoptCopy()", options, adoptionOptions)
      requireOneOf("unfinished", options.unfinished, ["cancel", "keep"])
      return run(Effect.map(adoptCopy(options.unfinished), ({ adopted, canceled }) => ({ adopted, canceled })))
    },
  }
}

type Readers = Pick<
  OperatorVerbs<Kind>,
  "count" | "measureQueue" | "listAttempts" | "listWaits" | "waitingFor" | "getRequest"
>

/** Operations that read the queue and one job. */
const readers = ({ context, run }: Pick<EngineRuntime, "context" | "run">): Readers => {
  const operator = Context.get(context, Operator)
  return {
    count: async (question = {}) => {
      requireOptions("count()", question, countQuestion)
      const { finishedWithinMs, project } = question
      if (finishedWithinMs !== undefined) requireNumber("finishedWithinMs", finishedWithinMs, { least: 0 })
      const projectId = project === undefined ? undefined : projectAskedFor(project)
      return run(operator.count({ finishedWithinMs, projectId, labels: labelsAskedFor(question) }))
    },
    measureQueue: async (question = {}) => {
      requireOptions("measureQueue()", question, queueQuestion)
      const { project } = question
      const projectId = project === undefined ? undefined : projectAskedFor(project)
      const queues = await run(operator.measureQueue({ projectId }))
      return queues.map((queue) => ({ ...queue, heldBack: queue.heldBack.map(shownReason) }))
    },
    listAttempts: (job) =>
      run(
        Effect.map(operator.listAttempts(idOf(job)), (attempts) =>
          attempts.map((attempt) => ({ ...attempt, startedAt: new Date(attempt.startedAt) })),
        ),
      ),
    listWaits: (job) =>
      run(
        Effect.map(operator.listWaits(idOf(job)), (waits) =>
          waits.map((wait) => ({ ...wait, firstAt: new Date(wait.firstAt), lastAt: new Date(wait.lastAt) })),
        ),
      ),
    waitingFor: (job) => run(Effect.map(operator.waitingFor(idOf(job)), (reasons) => reasons.map(shownReason))),
    getRequest: async (job, options = {}) => {
      requireOptions("getRequest()", options, requestOptions)
      const { by: actor = "program" } = options
      if (!isActor(actor)) throw new TypeError("by must be 1 to 100 visible ASCII characters and spaces")
      return run(operator.getRequest(idOf(job), { actor, origin: "embedded engine" }))
    },
  }
}

const isActor = (by: unknown): boolean => typeof by === "string" && /^[\x20-\x7e]{1,100}$/.test(by)

const shownReason = ({ until, ...reason }: WaitingFor): WaitingReason => ({
  ...reason,
  until: until === null ? null : new Date(until),
})

const concurrencyOf = (limits: ProjectLimits | null): number | null => {
  if (limits === null) return null
  requireOptions("limitProject()", limits, projectLimitOptions)
  requireNumber("concurrency", limits.concurrency, { least: 0, whole: true })
  return limits.concurrency
}

const spendOwner = (owner: SpendCapOwner): SpendOwner => {
  requireOptions("the owner of a spend cap", owner, { project: true, keyId: true })
  const { keyId, project } = owner as { readonly project?: string; readonly keyId?: string }
  if (project !== undefined && keyId === undefined) return projectAskedFor(project)
  if (project !== undefined || typeof keyId !== "string" || !keyId.startsWith("key_"))
    throw new TypeError("the owner of a spend cap must be { project } or { keyId }, with an id that begins with key_")
  return keyId as KeyId
}

/** Number of entries per page. */
const pageSize = 500

/**
 * Lists the charges of a period (Unix milliseconds) page by page, up to the time at which the first page reports the ledger
 * complete.
 */
export const listedCharges = (
  { from, to }: { readonly from: number; readonly to: number },
  ask: (page: LedgerPage) => Promise<LedgerPart>,
): ListedCharges => {
  let first: Promise<LedgerPart> | undefined
  const firstPage = () => (first ??= ask({ from, to, after: null, limit: pageSize }))
  const list = async function* (): AsyncGenerator<ListedCharge, undefined> {
    const { entries, until } = await firstPage()
    for (let page = entries; ;) {
      yield* page.map(listedCharge)
      const after = page.at(-1)
      if (after === undefined || page.length < pageSize) return
      ;({ entries: page } = await ask({ from, to: until, after, limit: pageSize }))
    }
  }
  return Object.assign(list(), { until: async () => new Date(Math.max(from, (await firstPage()).until)) })
}

const listedCharge = ({ charge, chargedAt, ...about }: LedgerEntry): ListedCharge => ({
  ...about,
  ...charge,
  chargedAt: new Date(chargedAt),
})
