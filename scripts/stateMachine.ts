// Writes docs/state-machine.md, and the diagram in ARCHITECTURE.md, from the moves that `applyEvent` makes. With `--check` it
// fails if the files differ.
//
// The page states nothing about a move that was not tried: every event is applied to every kind of state a job can reach.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { defaultEngineSettings } from "@kiln/core/effect"
import type { JobState } from "@kiln/core/domain"
import { applyEvent, created, type TransitionEvent, type JobTransition, jobTransitions } from "@kiln/core/rules"
import { difference } from "./difference.ts"

type Table = Readonly<Record<TransitionEvent["event"] | "created", JobTransition>>
type Apply = typeof applyEvent

/** What each event carries besides its name, in every variant worth trying. An event that is missing here does not compile. */
const variants: {
  readonly [E in TransitionEvent["event"]]: (
    token: number,
  ) => ReadonlyArray<Omit<Extract<TransitionEvent, { event: E }>, "event">>
} = {
  claimed: () => [{ leaseDurationMs: 30_000 }],
  abandoned: () => [{}],
  extended: (token) => [{ token, leaseDurationMs: 30_000 }],
  checkpointed: (token) => [{ token }],
  completed: (token) => [{ token }],
  failed: (token) => [{ token, errorCode: "content_rejected" }],
  deferred: (token) => [true, false].map((countsAsFailure) => ({ token, delayMs: 1_000, countsAsFailure })),
  parked: (token) => [true, false].map((isCharged) => ({ token, until: 10_000_000, isCharged })),
  woken: () => [{}],
  rescheduled: () => [{ at: 10_000_000 }],
  replaced: () => [{ at: 10_000_000, limits: { queueLimitMs: 3_600_000, runLimitMs: 45_000 } }],
  released: (token) => [{ token, createdAt: 0 }],
  lost: () => [{ createdAt: 0 }],
  postponed: () => [{ since: 60_000 }],
  expired: () => [{}],
  canceled: () => [{}],
  refused: () => [{}],
  erased: () => [{}],
}

const eventsFor = (token: number): ReadonlyArray<TransitionEvent> =>
  Object.entries(variants).flatMap(([event, of]) =>
    of(token).map((carried) => ({ event, ...carried }) as TransitionEvent),
  )

interface Move {
  readonly event: TransitionEvent
  readonly before: JobState
  readonly after: JobState
}

/** Every move from every kind of state that can be reached. Jobs of one kind differ only in times and counts. */
const tryEverything = (apply: Apply): ReadonlyArray<Move> => {
  const kindOf = ({ status, held, failures, lostWorkers, errorCode, claimableAt, deadlineAt }: JobState): string =>
    [status, held, failures > 0, lostWorkers > 0, errorCode, claimableAt === deadlineAt].join()
  // A second lease reaches the run limit, a first one does not.
  const first = created(0, { queueLimitMs: 3_600_000, runLimitMs: 45_000 })
  const reached = new Map([[kindOf(first), first]])
  const moves: Array<Move> = []
  // Iterating a map includes entries added during the iteration.
  for (const before of reached.values()) {
    const soon = (before.phaseStartedAt ?? before.finishedAt ?? 0) + 10_000
    for (const now of [soon, (before.claimableAt ?? soon) - 1, before.claimableAt ?? soon, before.deadlineAt ?? soon])
      for (const event of eventsFor(before.token)) {
        const after = apply(before, event, now)
        if (after === undefined) continue
        moves.push({ event, before, after })
        if (!reached.has(kindOf(after))) reached.set(kindOf(after), after)
      }
  }
  return moves
}

/** Throws if the table contains something about an event that the moves do not show. */
const assertTableIsTrue = (table: Table, moves: ReadonlyArray<Move>): void => {
  for (const [name, { from, to, token }] of Object.entries(table)) {
    if (name === "created") continue
    const made = moves.filter(({ event }) => event.event === name)
    const seen = [...new Set(made.map(({ before }) => before.status))]
    const wrong =
      seen.toSorted().join() !== from.toSorted().join() ||
      made.some(({ before, after }) => after.status !== (to === "same" ? before.status : to)) ||
      made.some(({ before, after }) => after.token !== before.token + (token === "raised" ? 1 : 0))
    if (wrong) throw new Error(`the table's row of \`${name}\` differs from what applyEvent does`)
  }
  const ranks = { queued: 0, processing: 1, done: 2, failed: 2 }
  const back = moves.find(({ before, after }) => ranks[after.status] < ranks[before.status])
  if (back !== undefined)
    throw new Error(`\`${back.event.event}\` takes a job back from ${back.before.status} to ${back.after.status}`)
}

/** The places of the diagram, in its order: a job that is `processing` either runs or waits for its next attempt. */
const places = ["queued", "running", "waiting", "done", "failed"]
const placeOf = ({ status, held }: JobState): string =>
  status === "processing" ? (held ? "running" : "waiting") : status

/** The life of a job, as a fence of Mermaid. */
export const diagramOf = (moves: ReadonlyArray<Move>): string => {
  const arrow = (from: string, to: string): string => {
    const between = moves.filter(({ before, after }) => placeOf(before) === from && placeOf(after) === to)
    const events = Object.keys(variants).filter((name) => between.some(({ event }) => event.event === name))
    return events.length === 0 ? "" : `${from} --> ${to}: ${events.join(", ")}`
  }
  const isInside = (place: string): boolean => place === "running" || place === "waiting"
  const arrows = places.flatMap((from) =>
    places.map((to) => ({ text: arrow(from, to), inside: isInside(from) && isInside(to) })),
  )
  const lines = (inside: boolean, indent: string) =>
    arrows.filter((one) => one.text !== "" && one.inside === inside).map(({ text }) => indent + text)
  return [
    "```mermaid",
    "stateDiagram-v2",
    "  [*] --> queued: created",
    "  state processing {",
    ...lines(true, "    "),
    "  }",
    ...lines(false, "  "),
    "```",
  ].join("\n")
}

/** Replaces the one diagram of states in a text. */
export const withDiagram = (text: string, diagram: string): string => {
  const fence = /```mermaid\nstateDiagram-v2\n[^`]*```/g
  const found = text.match(fence)?.length ?? 0
  if (found !== 1) throw new Error(`expected one diagram of states, found ${found}`)
  return text.replace(fence, () => diagram)
}

const code = (...words: ReadonlyArray<string>): string => words.map((word) => `\`${word}\``).join(", ")
const row = (cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`
const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [row(head), `|${"---|".repeat(head.length)}`, ...rows.map(row)].join("\n")

const guards: Record<JobTransition["guard"], string> = {
  none: "nothing: the job does not exist yet",
  claimable:
    "`claimableAt` has passed and the deadline has not (`isClaimable`). `abandoned` also requires that the job has lost its last allowed worker",
  fence:
    "the job is held and its token is the caller's (`holdsClaim`). An expired lease does not matter as long as no other claim came in between",
  lost: "the deadline has passed, the job is held, and the run limit did not end its lease (`isLost`)",
  overdue:
    "the deadline has passed (`isOverdue`), and the job is not lost. `postponed` also requires that the queue limit has not passed since the last prerequisite finished",
  waiting:
    "nobody holds the job, and `claimableAt` has not passed. Stores also require that the job is parked on this event",
  pending: "nobody holds the job, and the deadline has not passed. Stores also require that it is not parked",
  unfinished: "only the status",
  finished: "only the status",
}

/** The fields that an event changes, in parentheses where only some of its moves do. */
const changesOf = (moves: ReadonlyArray<Move>): string =>
  (Object.keys(moves[0]?.after ?? {}) as ReadonlyArray<keyof JobState>)
    .flatMap((field) => {
      const times = moves.filter(({ before, after }) => before[field] !== after[field]).length
      return times === 0 ? [] : [times === moves.length ? code(field) : `(${code(field)})`]
    })
    .join(", ")

/** What the end of an attempt costs, as `applyEvent` counts it. */
const costsTable = (moves: ReadonlyArray<Move>): string => {
  const cost = (reason: string, name: TransitionEvent["event"], countsAsFailure?: boolean): ReadonlyArray<string> => {
    const move = moves.find(
      ({ event, before }) =>
        event.event === name &&
        before.held &&
        (event.event !== "deferred" || event.countsAsFailure === countsAsFailure),
    )
    if (move === undefined) throw new Error(`no attempt ends by \`${name}\``)
    const { before, after } = move
    const counted = [after.failures - before.failures, after.lostWorkers - before.lostWorkers].map(String)
    return [reason, code(name), ...counted, code(after.status)]
  }
  return table(
    ["An attempt ends because", "event", "failures", "lost workers", "status"],
    [
      cost("the provider failed and may succeed later", "deferred", true),
      cost("the provider failed permanently, or too often", "failed"),
      cost("kiln's own store or blobs were unavailable", "deferred", false),
      cost("the worker shuts down, or a switch was turned off", "released"),
      cost("the worker vanished, and another one claims the job", "claimed"),
      cost("the worker vanished, and nobody claims the job in time", "lost"),
      cost("the worker vanished, and the job has lost too many", "abandoned"),
    ],
  )
}

const duration = (ms: number): string =>
  ms % 3_600_000 === 0 ? `${ms / 3_600_000} h` : ms % 60_000 === 0 ? `${ms / 60_000} min` : `${ms / 1_000} s`

/** Returns the page and its diagram. Throws if the table disagrees with `apply`. */
export const describeStateMachine = (rows: Table = jobTransitions, apply: Apply = applyEvent) => {
  const moves = tryEverything(apply)
  assertTableIsTrue(rows, moves)
  const diagram = diagramOf(moves)
  const { attempts, queueLimitMs, runLimitMs } = defaultEngineSettings
  const { maxFailures, maxLostWorkers, backoffBaseMs, backoffMaxMs, retryAfterMaxMs } = attempts
  const moveRows = Object.entries(rows).map(([event, { verb, from, to, guard, token, meaning }]) => {
    const before = event === "created" ? "(none)" : code(...from)
    return [code(event), code(verb), before, to === "same" ? "the same" : code(to), guard, token, meaning]
  })
  const changeRows = Object.keys(variants).map((name) => {
    const changes = changesOf(moves.filter(({ event }) => event.event === name))
    return [code(name), changes === "" ? "none of these" : changes]
  })
  const page = `<!-- Written by scripts/stateMachine.ts from packages/core/src/domain/JobTransition.ts: \`pnpm state-machine\`. -->

# The states of a job

${diagram}

A caller sees four statuses: \`queued\`, \`processing\`, \`done\`, \`failed\`. A status never goes backwards, and \`done\` and \`failed\` are
final. \`processing\` covers two situations that callers cannot tell apart: a worker holds the job under a lease (*running*), or the
job waits for its next attempt (*waiting*). Leases, tokens, attempts and budgets are never shown.

## Every move

The event is the name of the move. Its verb is the method of the \`JobStore\` port, a function in each SQL adapter and
the section of the conformance suite. Any other move is impossible.

${table(["Event", "verb", "from", "to", "guard", "token", "meaning"], moveRows)}

## Guards

A store checks the guard in the statement that writes. If it does not hold, nothing is written. A worker may repeat the end of a
claim because the first answer was lost: the repetition returns the first answer.

${table(["Guard", "requires"], Object.entries(guards))}

## Fields that a move changes

A field in parentheses changes in some situations only. The fields are those of \`domain/JobState.ts\`; output, files, charge,
checkpoints and erased data are not among them.

${table(["Event", "changes"], changeRows)}

## Budget of attempts

${costsTable(moves)}

A job may fail ${maxFailures} times and lose ${maxLostWorkers} workers. Its last failure is \`failed\` with the provider's code; its last lost worker is
\`abandoned\` with \`attempts_exhausted\`. The delay before the next attempt is random, up to ${duration(backoffBaseMs)} doubled with each failure,
at most ${duration(backoffMaxMs)}; a delay that the provider asks for is respected up to ${duration(retryAfterMaxMs)}.

## Budget of time

Both limits are fixed when the job is created. Waiting (in the queue, between attempts, for a switch to turn on) may add up to
${duration(queueLimitMs)}, then the job expires with \`queue_timeout\`. Time under lease may add up to ${duration(runLimitMs)}: no lease reaches past that
limit, and a job whose lease ends at it expires with \`job_timeout\`.
`
  return { diagram, page }
}

if (import.meta.main) {
  const repository = join(import.meta.dirname, "..")
  const { diagram, page } = describeStateMachine()
  const architecture = readFileSync(join(repository, "ARCHITECTURE.md"), "utf8")
  const generated = [
    ["docs/state-machine.md", page],
    ["ARCHITECTURE.md", withDiagram(architecture, diagram)],
  ] as const
  for (const [name, text] of generated) {
    const path = join(repository, name)
    if (process.argv.includes("--check")) {
      const stale = difference(text, path)
      console.log(
        stale === undefined ? `${name} is up to date` : `${name} ${stale}: run \`npx -y pnpm@12 state-machine\``,
      )
      if (stale !== undefined) process.exitCode = 1
    } else {
      writeFileSync(path, text)
      console.log(`wrote ${name}`)
    }
  }
}
