// Writes docs/state-machine.md, and the diagram in ARCHITECTURE.md, from the table of a job's moves, or with `--check`
// fails if they differ. What moves change is not told but tried: the reference function makes them.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { defaultEngineSettings } from "@kiln/core/effect"
import {
  applyEvent,
  created,
  type JobEvent,
  type JobState,
  type JobStatus,
  type JobTransition,
  jobTransitions,
} from "@kiln/core/domain"
import { difference } from "./difference.ts"

type Table = Readonly<Record<string, JobTransition>>

const statuses: ReadonlyArray<JobStatus> = ["queued", "processing", "done", "failed"]
/** As a diagram is read; a status that is not known yet comes first. */
const rank = (status: string): number => statuses.findIndex((known) => known === status)

/** One arrow each: every event that leads from one status to another. */
const edges = (table: Table) => {
  const byArrow = new Map<string, { readonly from: string; readonly to: string; readonly events: Array<string> }>()
  for (const [event, { from, to }] of Object.entries(table))
    for (const status of from) {
      const target = to === "same" ? status : to
      const arrow = `${status} ${target}`
      const edge = byArrow.get(arrow) ?? { from: status, to: target, events: [] }
      edge.events.push(event)
      byArrow.set(arrow, edge)
    }
  return [...byArrow.values()].sort((a, b) => rank(a.from) - rank(b.from) || rank(a.to) - rank(b.to))
}

/** The diagram as a fence of Markdown. */
export const diagramOf = (table: Table): string =>
  [
    "```mermaid",
    "stateDiagram-v2",
    ...edges(table).map(
      ({ from, to, events }) => `  ${from === "none" ? "[*]" : from} --> ${to}: ${events.join(", ")}`,
    ),
    "```",
  ].join("\n")

/** A text with its one diagram of states replaced. */
export const withDiagram = (text: string, diagram: string): string => {
  const fence = /```mermaid\nstateDiagram-v2\n[^`]*```/g
  const found = text.match(fence)?.length ?? 0
  if (found !== 1) throw new Error(`expected one diagram of states, found ${found}`)
  return text.replace(fence, () => diagram)
}

const row = (...cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`
const code = (...words: ReadonlyArray<string>): string => words.map((word) => `\`${word}\``).join(", ")
const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string =>
  [row(...head), `|${"---|".repeat(head.length)}`, ...rows.map((cells) => row(...cells))].join("\n")

const seconds = (ms: number): string => {
  const [amount, unit] =
    ms % 3_600_000 === 0 ? [ms / 3_600_000, "h"] : ms % 60_000 === 0 ? [ms / 60_000, "min"] : [ms / 1_000, "s"]
  return `${amount} ${unit}`
}

const guards: Record<JobTransition["guard"], string> = {
  none: "nothing: there is no job yet",
  fence:
    "the job is `processing`, held, and its token is the caller's (`holdsClaim`); that its lease ran out is no matter as long as nobody came in between",
  claimable:
    "`claimableAt` has come and the deadline has not (`isClaimable`), both in store time; `abandoned` also wants a lost worker: one that holds it still, or one of before",
  overdue: "the deadline has come (`isOverdue`), and the job is not lost",
  lost: "the deadline has come, the job is held, and no run limit ended its lease (`isLost`): its worker vanished",
  finished: "nothing more: its status says it",
}

const leaseDurationMs = 30_000

/** A job in each of the situations a move can meet, with the time it is at. */
const situations = (): ReadonlyArray<readonly [JobState, now: number]> => {
  const move = (job: JobState | undefined, event: JobEvent, now: number): JobState => {
    const next = job && applyEvent(job, event, now)
    if (next === undefined) throw new Error(`the table forbids ${event.event} where this page needs it`)
    return next
  }
  const queued = created(0, { queueLimitMs: 3_600_000, runLimitMs: 1_800_000 })
  const held = move(queued, { event: "claimed", leaseDurationMs }, 1_000)
  const waiting = move(held, { event: "deferred", token: 1, delayMs: 1_000, countsAsFailure: true }, 2_000)
  const done = move(held, { event: "completed", token: 1 }, 3_000)
  const failed = move(held, { event: "failed", token: 1, errorCode: "content_rejected" }, 3_000)
  return [
    [queued, 1_000],
    [held, 11_000],
    // A worker that never came back.
    [held, 1_000 + leaseDurationMs],
    [waiting, 4_000],
    ...[queued, held, waiting].flatMap((job) => (job.deadlineAt === null ? [] : ([[job, job.deadlineAt]] as const))),
    [done, 5_000],
    [failed, 5_000],
  ]
}

/** Each event as it may come, to a job with this token. */
const events = (token: number): ReadonlyArray<JobEvent> => [
  { event: "claimed", leaseDurationMs },
  { event: "abandoned" },
  { event: "extended", token, leaseDurationMs },
  { event: "checkpointed", token },
  { event: "completed", token },
  { event: "failed", token, errorCode: "content_rejected" },
  { event: "deferred", token, delayMs: 1_000, countsAsFailure: true },
  { event: "deferred", token, delayMs: 1_000, countsAsFailure: false },
  { event: "released", token, createdAt: 0 },
  { event: "lost", createdAt: 0 },
  { event: "expired" },
  { event: "erased" },
]

interface Move {
  readonly event: JobEvent
  readonly before: JobState
  readonly after: JobState
}

/** Every move that the table allows in one of the situations. */
const moves = (): ReadonlyArray<Move> =>
  situations().flatMap(([before, now]) =>
    events(before.token).flatMap((event): ReadonlyArray<Move> => {
      const after = applyEvent(before, event, now)
      return after === undefined ? [] : [{ event, before, after }]
    }),
  )

/** The fields a move changes; in brackets where it does so in some situations only. */
const changes = (made: ReadonlyArray<Move>): string => {
  const [first] = made
  if (first === undefined) return ""
  return (Object.keys(first.after) as ReadonlyArray<keyof JobState>)
    .flatMap((field) => {
      const times = made.filter(({ before, after }) => before[field] !== after[field]).length
      if (times === 0) return []
      return times === made.length ? [code(field)] : [`(${code(field)})`]
    })
    .join(", ")
}

const changesTable = (): string => {
  const made = moves()
  const rows = Object.keys(jobTransitions)
    .filter((name) => name !== "created")
    .map((name) => [code(name), changes(made.filter(({ event }) => event.event === name)) || "nothing of these"])
  return table(["event", "changes"], rows)
}

/** What a move costs, as the reference function counts it. */
const budgetsTable = (): string => {
  const made = moves()
  const cost = (is: (move: Move) => boolean): ReadonlyArray<string> => {
    const move = made.find(is)
    if (move === undefined) throw new Error("a row of the budgets is no move")
    const { before, after } = move
    return [`${after.failures - before.failures}`, `${after.lostWorkers - before.lostWorkers}`, code(after.status)]
  }
  const named = (name: JobEvent["event"]) => (move: Move) => move.event.event === name && move.before.held
  const deferred = (counts: boolean) => (move: Move) =>
    move.event.event === "deferred" && move.event.countsAsFailure === counts
  return table(
    ["an attempt ends because", "event", "failures", "lost workers", "then"],
    [
      ["the provider failed and may do better", code("deferred"), ...cost(deferred(true))],
      ["the provider failed for good, or once too often", code("failed"), ...cost(named("failed"))],
      ["kiln's own store or blobs were away", code("deferred"), ...cost(deferred(false))],
      ["the worker stops, or a switch was thrown", code("released"), ...cost(named("released"))],
      ["the worker vanished, and another takes over", code("claimed"), ...cost(named("claimed"))],
      ["no worker claimed the job in time", code("lost"), ...cost(named("lost"))],
      ["the worker vanished once too often", code("abandoned"), ...cost(named("abandoned"))],
    ],
  )
}

const callerTable = (moveTable: Table): string => {
  const reachable = (from: string) =>
    statuses.filter((status) => status !== from && edges(moveTable).some((e) => e.from === from && e.to === status))
  const seen: Record<JobStatus, string> = {
    queued: "accepted, never claimed",
    processing: "claimed at least once; also between two attempts and after a release",
    done: "`output` and bill are there; without `output` once its data is erased",
    failed: "`error_code` says why",
  }
  return table(
    ["status", "means", "may become"],
    statuses.map((status) => [code(status), seen[status], code(...reachable(status)) || "nothing else, ever"]),
  )
}

/** A status that can be left and come back to would go backwards in a caller's eyes. */
const assertForwards = (moveTable: Table): void => {
  const visit = (status: string, path: ReadonlyArray<string>): void => {
    if (path.includes(status)) throw new Error(`a status goes backwards: ${[...path, status].join(" -> ")}`)
    for (const { from, to } of edges(moveTable)) if (from === status && to !== from) visit(to, [...path, status])
  }
  visit("none", [])
}

/** The whole page. */
export const describeStateMachine = (moveTable: Table): string => {
  assertForwards(moveTable)
  const { attempts, queueLimitMs, runLimitMs } = defaultEngineSettings
  const { maxFailures, maxLostWorkers, backoffBaseMs, backoffMaxMs, retryAfterMaxMs } = attempts
  const moveRows = Object.entries(moveTable).map(([event, { verb, from, to, guard, token, meaning }]) => [
    code(event),
    code(verb),
    from[0] === "none" ? "(none)" : code(...from),
    to === "same" ? "the same" : code(to),
    guard,
    token,
    meaning,
  ])
  const used = [...new Set(Object.values(moveTable).map(({ guard }) => guard))]
  return `<!-- Written by scripts/stateMachine.ts from packages/core/src/domain/JobTransition.ts: \`pnpm state-machine\`. -->

# The states of a job

${diagramOf(moveTable)}

## Every move

An event's verb is the method of the \`JobStore\` port, the section of the conformance suite and the SQL file of an adapter.
What is not in this table cannot happen to a job.

${table(["event", "verb", "from", "to", "guard", "token", "meaning"], moveRows)}

## What a guard checks

In the statement that writes, so that nothing can come in between. Where it does not hold, nothing is written. The end of
a claim that is repeated, because the answer to the first try was lost, is answered as the first try was.

${table(
  ["guard", "holds where"],
  used.map((guard) => [guard, guards[guard]]),
)}

## What a move changes

Found by making each move in every situation; fields in brackets change in some of them only. The fields are those of
\`domain/JobState.ts\`. Output, files, charge, checkpoints and erased data belong to the verbs and are not in this list.

${changesTable()}

## Two budgets for attempts

${budgetsTable()}

A job may fail ${maxFailures} times and lose ${maxLostWorkers} workers. The last failure is \`failed\` with the provider's code, the last lost worker
\`abandoned\` with \`attempts_exhausted\`. Before the next attempt lies a random part of ${seconds(backoffBaseMs)}, doubled with each failure up
to ${seconds(backoffMaxMs)}, or what the provider asked for, up to ${seconds(retryAfterMaxMs)}.

## Two budgets for time

Fixed when the job is created. Waiting (in line, between attempts, for a gate) adds up to ${seconds(queueLimitMs)} at most, then \`expired\`
says \`queue_timeout\`. Time under lease adds up to ${seconds(runLimitMs)} at most; a lease never reaches past it, and where it ends
there, \`expired\` says \`job_timeout\`.

## What a caller sees

Four statuses, and never one that goes backwards: this page is not written from a table in which one could.

${callerTable(moveTable)}

Leases, tokens, attempts and budgets are not shown.
`
}

if (import.meta.main) {
  const repository = join(import.meta.dirname, "..")
  const page = join(repository, "docs/state-machine.md")
  const architecture = join(repository, "ARCHITECTURE.md")
  const generated = [
    ["docs/state-machine.md", page, describeStateMachine(jobTransitions)],
    ["ARCHITECTURE.md", architecture, withDiagram(readFileSync(architecture, "utf8"), diagramOf(jobTransitions))],
  ] as const
  for (const [name, path, text] of generated) {
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
