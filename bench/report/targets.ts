import { type Figures, number } from "./figures.ts"

/** A target and what was measured. */
export interface Judged {
  readonly group: string
  readonly what: string
  readonly wanted: string
  readonly measured: string
  /** Undefined if something it needs was not measured. */
  readonly met: boolean | undefined
}

interface Target {
  readonly group: string
  readonly what: string
  readonly wanted: string
  /** A value that must be at least, or at most, the bound. */
  readonly value: (figures: Figures) => number
  readonly atLeast?: number
  readonly atMost?: number
  readonly unit?: string
}

const fsync = "plainjob, fsync"

/** kiln's value divided by that of another subject, or of the best durable peer. */
const ratio =
  (workload: string, metric: string, subject?: string) =>
  (figures: Figures): number =>
    figures.value(workload, metric) /
    (subject === undefined ? figures.best(workload, metric) : figures.value(workload, metric, subject))

const value = (workload: string, metric: string) => (figures: Figures) => figures.value(workload, metric)

const atLeast = (group: string, what: string, to: string, least: number, of: Target["value"]): Target => ({
  group,
  what,
  wanted: `at least ${number(least)} × ${to}`,
  value: of,
  atLeast: least,
  unit: "×",
})

/** A latency under that of a peer, or of the best one. */
const under = (group: string, what: string, to: string, most: number, of: Target["value"]): Target => ({
  group,
  what,
  wanted: most === 1 ? `under ${to}` : `under ${number(most)} × ${to}`,
  value: of,
  atMost: most,
  unit: "×",
})

const below = (group: string, what: string, most: number, unit: string, of: Target["value"]): Target => ({
  group,
  what,
  wanted: `under ${number(most)} ${unit}`,
  value: of,
  atMost: most,
  unit: ` ${unit}`,
})

const latencies = (workload: string, what: string): ReadonlyArray<Target> =>
  (["p50", "p99"] as const).map((metric) =>
    under("Postgres", `${what}, ${metric}`, "the best peer", 1, ratio(workload, metric)),
  )

const memory = (store: string, id: string, megabytes: number): ReadonlyArray<Target> => [
  below(store, "peak memory of draining 100,000 jobs", megabytes, "MB", value(`${id}/memory`, "peakMb")),
  {
    group: store,
    what: "drain beside a million finished jobs",
    wanted: "at most 1.15 times slower",
    value: value(`${id}/million`, "slower"),
    atMost: 1.15,
    unit: "×",
  },
]

/** Speech from POST to file: jobs per second on two cores, clients included, and processor time of the server. */
const speech = (store: string, name: string, rate: number, serverMs: number): ReadonlyArray<Target> => [
  {
    group: "HTTP",
    what: `speech from POST to file, ${name}`,
    wanted: `at least ${number(rate)}/s on two cores`,
    value: value(`http/speech-${store}`, "rate"),
    atLeast: rate,
    unit: "/s",
  },
  below("HTTP", "the same, processor time of the server", serverMs, "ms", value(`http/speech-${store}`, "serverMs")),
]

/** Jobs as applications have them, compared with those that need nothing besides. */
const users = (group: string, store: "sqlite" | "postgres"): ReadonlyArray<Target> => {
  const beside = (workload: string, metric: string, plain: string) => (figures: Figures) =>
    figures.value(`${store}/${workload}`, metric) / figures.value(`${store}/${plain}`, metric)
  return [
    ...[8, 32].map((slots) =>
      atLeast(
        group,
        `jobs of 20 ms, ${slots} slots`,
        "the rate that the slots allow",
        0.95,
        (figures) => figures.value(`${store}/waiting-${slots}`, "rate") / (slots * 50),
      ),
    ),
    atLeast(
      group,
      "create live with a price, 32 callers",
      "plain jobs",
      0.77,
      beside("create-32-live-with-a-price", "rate", "create-32"),
    ),
    atLeast(
      group,
      "create under a cap, 32 callers",
      "plain jobs",
      0.87,
      beside("create-32-under-a-cap", "rate", "create-32"),
    ),
    under(
      group,
      "submit to start, 300 jobs/s, while retention sweeps, p99",
      "without it",
      1.5,
      beside("start-300-swept", "p99", "start-300"),
    ),
    ...(store === "postgres"
      ? [
          atLeast(
            group,
            "drain, 8 slots, 200 projects",
            "one project",
            0.8,
            beside("drain-8-slots-200-projects", "rate", "drain-8-slots"),
          ),
        ]
      : []),
  ]
}

const targets: ReadonlyArray<Target> = [
  ...users("SQLite", "sqlite"),
  ...users("Postgres", "postgres"),
  atLeast("SQLite", "create, 32 callers", fsync, 4, ratio("sqlite/create-32", "rate", fsync)),
  atLeast("SQLite", "create, 1 caller", fsync, 0.7, ratio("sqlite/create-1", "rate", fsync)),
  atLeast("SQLite", "add in bulk", fsync, 0.3, ratio("sqlite/queue", "bulk", fsync)),
  atLeast("SQLite", "drain", fsync, 8, ratio("sqlite/queue", "rate", fsync)),
  atLeast("SQLite", "drain", "plainjob, no fsync", 2, ratio("sqlite/queue", "rate", "plainjob, no fsync")),
  under("SQLite", "submit to start, idle, p50", fsync, 1.3, ratio("sqlite/start-idle", "p50", fsync)),
  under("SQLite", "submit to start, idle, p99", fsync, 1, ratio("sqlite/start-idle", "p99", fsync)),
  ...memory("SQLite", "sqlite", 110),
  atLeast("Postgres", "create, 32 callers", "the best peer", 2, ratio("postgres/create-32", "rate")),
  atLeast("Postgres", "create, 32 callers", "pg-boss", 8, ratio("postgres/create-32", "rate", "pg-boss")),
  atLeast("Postgres", "create, 1 caller", "openworkflow", 0.9, ratio("postgres/create-1", "rate", "openworkflow")),
  atLeast("Postgres", "add in bulk", "the best peer", 0.7, ratio("postgres/queue", "bulk")),
  atLeast("Postgres", "drain, one process", "pg-boss", 1, ratio("postgres/queue", "rate", "pg-boss")),
  atLeast(
    "Postgres",
    "drain, two processes",
    "one process",
    1,
    (figures) => figures.value("postgres/drain-2", "rate") / figures.value("postgres/queue", "rate"),
  ),
  ...latencies("postgres/start-idle", "submit to start, idle, one process"),
  ...latencies("postgres/start-300", "submit to start, 300 jobs/s, one process"),
  ...latencies("postgres/start-idle-apart", "submit to start, idle, apart"),
  ...latencies("postgres/start-300-apart", "submit to start, 300 jobs/s, apart"),
  below(
    "Postgres",
    "1,000 jobs in the caller's transaction, p50",
    50,
    "ms",
    value("postgres/in-transaction-1000", "p50"),
  ),
  ...memory("Postgres", "postgres", 150),
  atLeast("HTTP", "GET a finished job", "bare node:http", 0.35, ratio("http/get", "rate", "bare node:http")),
  below("HTTP", "GET a finished job, p99", 20, "ms", value("http/get", "p99")),
  atLeast(
    "HTTP",
    "POST, durable, with a worker beside it",
    "POST alone",
    0.8,
    (figures) => figures.value("http/post-beside", "rate") / figures.value("http/post", "rate"),
  ),
  atLeast("HTTP", "POST, durable", "bare node:http", 0.3, ratio("http/post", "rate", "bare node:http")),
  atLeast("HTTP", "download of 20 MB", "bare + SHA-256", 0.6, ratio("http/download", "rate", "bare + SHA-256")),
  atLeast(
    "HTTP",
    "upload of 24 MB",
    "bare + SHA-256, fsync",
    0.6,
    ratio("http/upload", "rate", "bare + SHA-256, fsync"),
  ),
  ...speech("sqlite", "SQLite and files", 500, 1.3),
  ...speech("postgres", "Postgres and files", 300, 2),
  atLeast("Files", "sandbox speech", "raw files and rows", 0.5, ratio("files/speech", "rate", "raw files and rows")),
  below("Program", "import of engine, SQLite store and file blobs", 90, "ms", value("program/start", "import")),
  below("SQLite", "a program until its first job is accepted", 110, "ms", value("sqlite/first-job", "took")),
  below("Program", "kiln serve, until it listens", 220, "ms", value("program/start", "ready")),
]

const isMet = ({ atLeast: least, atMost: most }: Target, measured: number): boolean =>
  measured >= (least ?? -Infinity) && measured <= (most ?? Infinity)

/** Compares a run with the targets that kiln has set itself. */
export const judge = (figures: Figures): ReadonlyArray<Judged> =>
  targets.map((target) => {
    const measured = target.value(figures)
    return {
      group: target.group,
      what: target.what,
      wanted: target.wanted,
      measured: Number.isNaN(measured) ? "not measured" : `${number(measured)}${target.unit ?? ""}`,
      met: Number.isNaN(measured) ? undefined : isMet(target, measured),
    }
  })

/** Formats the targets that were measured as plain text. */
export const targetTable = (figures: Figures): string =>
  judge(figures)
    .filter(({ met }) => met !== undefined)
    .map(
      ({ group, measured, met, wanted, what }) =>
        `  ${met === true ? "met   " : "missed"} ${`${group}: ${what}`.padEnd(58)} ${wanted.padEnd(38)} ${measured}`,
    )
    .join("\n")
