import type { ResultOf } from "@kiln/dashboard/api"
import { formatTable } from "../Output.ts"
import { bar, fitted } from "../try/StatusLine.ts"

/** The state of an installation, and its minutes within the last hour. */
export interface Picture {
  readonly overview: ResultOf<"overview">
  readonly history: ResultOf<"history">
}

const ticks = [..."▁▂▃▄▅▆▇█"]

const sparkline = (values: ReadonlyArray<number>): string => {
  const most = Math.max(...values, 1)
  return values.map((value) => ticks[Math.round((value / most) * (ticks.length - 1))]).join("")
}

const secondsOf = (seconds: number): string => {
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  return seconds < 3_600 ? `${Math.floor(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`
}

const queueRows = ({ overview: { queues, recent } }: Picture): ReadonlyArray<ReadonlyArray<string>> => {
  const names = new Map([...queues, ...recent.types].map(({ mode, type }) => [`${type} ${mode}`, { mode, type }]))
  return [...names.values()].map(({ mode, type }) => {
    const isOf = (each: { readonly type: string; readonly mode: string }) => each.type === type && each.mode === mode
    const queue = queues.find(isOf)
    const hour = recent.types.find(isOf)
    const held = [
      ...(queue?.paused === true ? ["paused"] : []),
      ...(queue?.held_back ?? []).map(({ reason }) => reason),
    ]
    return [
      type,
      mode,
      String(queue?.ready ?? 0),
      queue === undefined || queue.ready === 0 ? "-" : secondsOf(queue.oldest_ready_seconds),
      String(queue?.running ?? 0),
      String((queue?.retrying ?? 0) + (queue?.delayed ?? 0)),
      String(hour?.done ?? 0),
      String(hour?.failed ?? 0),
      hour === undefined ? "-" : `${secondsOf(hour.waited.p50)} / ${secondsOf(hour.waited.p95)}`,
      hour === undefined ? "-" : `${secondsOf(hour.ran.p50)} / ${secondsOf(hour.ran.p95)}`,
      [...new Set(held)].join(", "),
    ]
  })
}

/** `perHour`: the finished jobs are all of an hour. Otherwise, they are the newest of them, and `since` tells of what time. */
const headings = (perHour: boolean) => [
  "TYPE",
  "MODE",
  "READY",
  "OLDEST",
  "RUN",
  "LATER",
  perHour ? "DONE/H" : "DONE",
  perHour ? "FAILED/H" : "FAILED",
  "WAITED P50/P95",
  "RAN P50/P95",
  "",
]

/** A minute is recorded at its end. An older one says nothing about now: no server records any more. */
const isLatest = ({ at }: Picture["history"]["points"][number], now: string): boolean =>
  Date.parse(now) / 1_000 - at < 180

const spendingLine = (spent: Picture["overview"]["spending"][number]): string => {
  const caps = [
    ["day", spent.day_spent, spent.day_cap],
    ["month", spent.month_spent, spent.month_cap],
  ] as const
  const parts = caps.map(([name, amount, cap]) =>
    cap === null ? `${name} ${amount}` : `${name} ${amount} of ${cap} ${bar(Number(amount), Number(cap), 10)}`,
  )
  return `${spent.name ?? spent.owner} (${spent.currency}): ${parts.join(", ")}`
}

const section = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)]

/** Draws the overview as lines of at most this many columns. */
export const frame = (picture: Picture, columns: number): ReadonlyArray<string> => {
  const { history, overview } = picture
  const { findings, providers, recent, spending, workers } = overview
  const minutes = history.points.slice(-30)
  const latest = minutes.findLast((minute) => isLatest(minute, overview.at))
  const slots = workers.reduce((sum, worker) => sum + (worker.slots ?? 0), 0)
  const lines = [
    `kiln top  ${overview.at}  ${workers.length} ${workers.length === 1 ? "worker" : "workers"}, ${slots} slots`,
    `done ${latest?.done ?? "-"}/min ${sparkline(minutes.map(({ done }) => done))}  failed ${latest?.failed ?? "-"}/min ${sparkline(minutes.map(({ failed }) => failed))}`,
    ...(recent.complete ? [] : [`only the last ${recent.jobs} finished jobs are counted, since ${recent.since}`]),
    "",
    ...formatTable(
      headings(recent.complete),
      queueRows(picture),
      "no unfinished jobs, and none that finished within an hour",
    ).split("\n"),
    ...section(
      "FINDINGS",
      (findings ?? []).map(({ remedy, summary }) => (remedy === null ? summary : `${summary}: ${remedy}`)),
    ),
    ...section(
      recent.complete ? "FAILURES (1 H)" : "FAILURES",
      recent.failures.slice(0, 8).map(({ count, error_code, type }) => `${count} ${type} ${error_code}`),
    ),
    ...section(
      "PROVIDERS",
      providers.map(({ next_try_at, provider, reason, status }) =>
        status === "ready" ? `${provider} ready` : `${provider} paused: ${reason}, next try ${next_try_at ?? "-"}`,
      ),
    ),
    ...section("SPENDING", spending.map(spendingLine)),
    ...section(
      "WORKERS",
      workers.map(
        (worker) => `${worker.name ?? worker.worker_id} ${worker.slots ?? "-"} slots ${worker.types.join(" ")}`,
      ),
    ),
  ]
  return lines.map((line) => fitted(line, columns))
}
