import * as Effect from "effect/Effect"
import { type Board, missingPrerequisites, type StoreUnavailable } from "@kiln/core/domain"
import { builtInKinds } from "@kiln/core/kinds"
import type { QueueGroup, StoreInspection } from "@kiln/core/ports"
import { quoted } from "../programCommand.ts"
import { switchRemedy } from "./switchRemedy.ts"
import { ageText, type Check, counted, graded, type GradedFinding, ok, problem, skipped } from "./Check.ts"

const name = "queue"
/** Workers poll at least every 30 seconds. */
const idleMs = 120_000
/** Jobs that have waited this long are a backlog. */
const backlogMs = 900_000
/** Another worker takes a job over within a second of the end of its lease. */
const lapsedMs = 60_000

/** Further looks at a line that seems idle, and the milliseconds between them. */
const looks = 6
const lookAgainMs = 500

type Found = ReadonlyArray<GradedFinding & { readonly remedy: string }>

/** The unfinished jobs of one kind and mode. */
interface Line {
  readonly kind: string
  readonly mode: QueueGroup["mode"]
  readonly groups: ReadonlyArray<QueueGroup>
}

const linesOf = (groups: ReadonlyArray<QueueGroup>): ReadonlyArray<Line> =>
  [...Map.groupBy(groups, ({ kind, mode }) => `${kind} ${mode}`).values()].flatMap(([first, ...rest]) =>
    first === undefined ? [] : [{ kind: first.kind, mode: first.mode, groups: [first, ...rest] }],
  )

const nameOf = ({ kind, mode }: Line): string => `${kind} ${mode}`

const ofState = ({ groups }: Line, state: QueueGroup["state"]): Pick<QueueGroup, "count" | "oldestMs"> =>
  groups.find((group) => group.state === state) ?? { count: 0, oldestMs: 0 }

const remedyOf = (missing: string, forcedOff: ReadonlyArray<string>): string => {
  const [what = "", which = ""] = missing.split(":")
  return what === "switch"
    ? switchRemedy(which, forcedOff)
    : `start a worker with a provider for ${which}: KILN_ROLE=worker kiln serve, with KILN_PROVIDER or KILN_CONFIG`
}

/** Why jobs of a line are not started on purpose, in the order in which an operator can change it. */
const heldBack = (line: Line, board: Board, forcedOff: ReadonlyArray<string>): Found => {
  const { count, oldestMs } = ofState(line, "ready")
  const waiting = count + ofState(line, "delayed").count
  if (waiting === 0) return []
  const what = `${counted(waiting, "job")} of type ${line.kind} (${line.mode})`
  const details = { type: line.kind, mode: line.mode, waiting: String(waiting) }
  if (board.pausedKinds.includes(line.kind))
    return [
      {
        isProblem: false,
        message: `${what} held back: the type is paused`,
        remedy: `kiln queue resume ${quoted(line.kind)}`,
        details,
      },
    ]
  const gate = builtInKinds().find((kind) => kind.name === line.kind)?.gate
  if (line.mode === "sandbox" || gate === undefined) return []
  // An accepted job keeps its price, and whether a worker serves the kind now is checked below, so no time is needed.
  const closed = missingPrerequisites({ ...gate, price: null, liveWorker: null }, board, 0)
  const unserved = board.liveKinds.includes(line.kind) || oldestMs < idleMs ? [] : [`provider:${line.kind}`]
  return [...closed, ...unserved].map((missing) => ({
    isProblem: missing.startsWith("provider:"),
    message: missing.startsWith("switch:")
      ? `${what} held back until their time in the queue is over: the switch ${missing.slice("switch:".length)} is off`
      : `${what} held back: no running worker serves the type`,
    remedy: remedyOf(missing, forcedOff),
    details,
  }))
}

/** Ready jobs that have waited long while none of their kind runs, unless short jobs run between two looks. */
const isIdle = (line: Line): boolean =>
  ofState(line, "ready").oldestMs >= idleMs && ofState(line, "running").count === 0

/** Returns whether jobs of a line were claimed or ended between two looks. */
const isDraining = (before: Line, after: Line): boolean =>
  ofState(after, "running").count > 0 ||
  ofState(after, "ready").count < ofState(before, "ready").count ||
  ofState(after, "ready").oldestMs < ofState(before, "ready").oldestMs

/** Looks again for a few seconds while a line seems idle: a worker that runs short jobs is seldom caught with one. */
const countQueue = (store: Pick<StoreInspection, "countQueue">) =>
  Effect.gen(function* () {
    const first = yield* store.countQueue
    let idle = linesOf(first).filter(isIdle)
    const moving = new Set<string>()
    for (let look = 0; look < looks && idle.length > 0; look++) {
      yield* Effect.sleep(lookAgainMs)
      const now = new Map(linesOf(yield* store.countQueue).map((line) => [nameOf(line), line]))
      const drains = (line: Line) => isDraining(line, now.get(nameOf(line)) ?? { ...line, groups: [] })
      for (const line of idle.filter(drains)) moving.add(nameOf(line))
      idle = idle.filter((line) => !drains(line))
    }
    return { queue: first, moving }
  })

/** Jobs that should run, but do not. `isMoving`: some of them were seen to start or end. */
const stuck = (line: Line, isMoving: boolean): Found => {
  const ready = ofState(line, "ready")
  const lapsed = ofState(line, "lapsed")
  const running = ofState(line, "running").count
  const type = `${line.kind} (${line.mode})`
  const details = { type: line.kind, mode: line.mode }
  return [
    ...(isIdle(line) && !isMoving
      ? [
          {
            isProblem: true,
            message: `${counted(ready.count, "job")} of type ${type} ready, the oldest for ${ageText(ready.oldestMs)}, and not one running`,
            remedy:
              "start a worker: kiln serve, with KILN_ROLE=all or KILN_ROLE=worker; or see the log of the running ones",
            details,
          },
        ]
      : ready.oldestMs >= backlogMs
        ? [
            {
              isProblem: false,
              message: `${counted(ready.count, "job")} of type ${type} ready, the oldest for ${ageText(ready.oldestMs)}, and ${running === 0 ? "few" : `only ${running}`} running`,
              remedy: "raise KILN_CONCURRENCY, start more workers, or raise the limits in KILN_CONFIG",
              details,
            },
          ]
        : []),
    ...(lapsed.oldestMs >= lapsedMs
      ? [
          {
            isProblem: true,
            message: `${counted(lapsed.count, "job")} of type ${type} lost by a worker, the first ${ageText(lapsed.oldestMs)} ago, and not taken over by another`,
            remedy: "start a worker: kiln serve, with KILN_ROLE=all or KILN_ROLE=worker",
            details,
          },
        ]
      : []),
  ]
}

/** Checks that jobs that could run are running. `forcedOff`: switches that the environment turns off. */
export const checkQueue = (
  store: Pick<StoreInspection, "countQueue">,
  board: Board,
  forcedOff: ReadonlyArray<string> = [],
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.map(countQueue(store), ({ moving, queue }) => {
    const total = queue.reduce((sum, { count }) => sum + count, 0)
    const findings = linesOf(queue).flatMap((line) => {
      const reasons = heldBack(line, board, forcedOff)
      const groups = reasons.length === 0 ? line.groups : line.groups.filter(({ state }) => state === "lapsed")
      return [...reasons, ...stuck({ ...line, groups }, moving.has(nameOf(line)))]
    })
    return graded(name, findings, {
      well: total === 0 ? "no job is unfinished" : `${counted(total, "unfinished job")}, none of them stuck`,
      wrong: "some jobs are not making progress",
    })
  })

const workersName = "workers"

/** Checks that a worker is running if there are jobs. A worker that died is forgotten within 30 seconds. */
export const checkWorkers = (
  store: Pick<StoreInspection, "countQueue" | "listWorkers">,
): Effect.Effect<Check, StoreUnavailable> =>
  Effect.gen(function* () {
    const workers = yield* store.listWorkers
    if (workers.length > 0) {
      const slots = workers.reduce((sum, { scope }) => sum + (scope?.slots ?? 0), 0)
      return ok(workersName, `${counted(workers.length, "worker")} running, with ${counted(slots, "slot")}`)
    }
    const unfinished = (yield* store.countQueue).reduce((sum, { count }) => sum + count, 0)
    return unfinished === 0
      ? skipped(workersName, "none is running, and no job is unfinished")
      : problem(workersName, {
          summary: `none is running, and ${unfinished === 1 ? "1 job waits" : `${unfinished} jobs wait`} for one`,
          remedy:
            "start a worker: kiln serve, with KILN_ROLE=all or KILN_ROLE=worker; or see in its log why it ended, or cannot write to the database",
        })
  })
