/** One figure that a workload measures. */
export interface Metric {
  readonly key: string
  /** Empty for the figure that the workload is named for. */
  readonly title: string
  readonly unit: "/s" | "ms" | "MB" | "MB/s" | "×" | "%"
}

/** One participant of a workload: kiln, another engine, or the raw work. */
export interface Subject {
  readonly name: string
  /** `kiln` is the checkout under test, `base` another checkout of it; an `unsafe` engine may lose jobs it has accepted. */
  readonly role: "kiln" | "base" | "peer" | "unsafe" | "limit"
}

/** The figures of one round, by the keys of the metrics. */
export type Figures = Readonly<Record<string, number>>

export interface Workload {
  /** Stable name for `--only` and targets: `sqlite/create-1`. */
  readonly id: string
  /** Group of tables: SQLite, Postgres, HTTP … */
  readonly group: string
  readonly title: string
  readonly metrics: ReadonlyArray<Metric>
  readonly subjects: ReadonlyArray<Subject>
  /** What users of an application see, rather than what one part of an engine costs. */
  readonly isRealistic?: boolean
  /** The number of rounds at most; memory hardly varies, and some workloads take minutes. */
  readonly mostRounds?: number
  readonly run: (subject: Subject) => Promise<Figures>
}

/** The surroundings that all workloads share. */
export interface Bench {
  /** Directory of the bundled programs. */
  readonly programs: string
  /** Directory of the built packages of a subject. */
  readonly kilnOf: (subject: Subject) => string
  readonly hasBase: boolean
  readonly quick: boolean
  /** Whether to include workloads that take many minutes. */
  readonly long: boolean
  /** Removes a directory when the bench ends. */
  readonly atEnd: (directory: string) => void
  /** Makes an empty database and removes it at the end of the scope. */
  readonly place: (store: "sqlite" | "postgres") => Promise<Place>
}

export interface Place extends AsyncDisposable {
  /** Path or URL. */
  readonly place: string
  /** Brings statistics up to date and writes out what is dirty, as the server does in its own time. */
  readonly settle: () => Promise<void>
}

/** The kiln subjects, then others. */
export const subjectsOf = (
  bench: Bench,
  peers: ReadonlyArray<string>,
  limit: boolean,
  limitName = "limit",
): ReadonlyArray<Subject> => [
  { name: "kiln", role: "kiln" },
  ...(bench.hasBase ? [{ name: "kiln (base)", role: "base" as const }] : []),
  ...peers.map((name) => ({ name, role: name.endsWith("no fsync") ? ("unsafe" as const) : ("peer" as const) })),
  ...(limit ? [{ name: limitName, role: "limit" as const }] : []),
]

/** The value below which this share of the sorted values lies. */
export const quantile = (values: ReadonlyArray<number>, share: number): number => {
  const sorted = values.toSorted((x, y) => x - y)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
}
