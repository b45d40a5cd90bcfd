import { freeze, type MemoryState } from "./MemoryState.ts"

/** The saved part of a state. A missing field does not compile. */
const savedOf = (state: MemoryState) =>
  ({
    virtualTime: state.virtualTime,
    switches: [...state.switches],
    jobs: [...state.jobs],
    attempts: [...state.attempts],
    waits: [...state.waits],
    parked: [...state.parked],
    dependents: [...state.dependents].map(([id, dependents]) => [id, [...dependents]] as const),
    signals: [...state.signals],
    chunks: [...state.chunks],
    jobByIdempotencyKey: [...state.jobByIdempotencyKey],
    replacedKeys: [...state.replacedKeys],
    unfinishedByProject: [...state.unfinishedByProject],
    lanes: [...state.lanes].map(([key, lane]) => [key, { ...lane, unfinished: [...lane.unfinished] }] as const),
    charges: [...state.charges],
    spendCaps: [...state.spendCaps],
    reservations: [...state.reservations],
    ledgerClosedUntil: state.ledgerClosedUntil,
    uploads: [...state.uploads],
    reservedBytes: [...state.reservedBytes],
    purges: [...state.purges],
    retentionRules: [...state.retentionRules],
    projects: [...state.projects],
    keys: [...state.keys],
    secrets: [...state.secrets],
    pausedKinds: [...state.pausedKinds],
    projectConcurrency: [...state.projectConcurrency],
    prices: [...state.prices],
    workers: [...state.workers],
    servedKinds: [...state.servedKinds],
    namedSecrets: [...state.namedSecrets].map(([name, bytes]) => [name, [...bytes]] as const),
    schedules: [...state.schedules],
    scopes: [...state.scopes],
    deliveries: [...state.deliveries],
    rateBuckets: [...state.rateBuckets],
    operatorTokens: [...state.operatorTokens],
    minutes: [...state.minutes],
    lineage: state.lineage,
  }) satisfies Record<keyof MemoryState, unknown>

/** Encodes the whole state as one line of JSON. Equal states give equal texts. */
export const encodeState = (state: MemoryState): string => JSON.stringify(savedOf(state))

/** Decodes the output of `encodeState`. Throws for anything else. */
export const decodeState = (text: string): MemoryState => {
  const saved = freeze(JSON.parse(text) as ReturnType<typeof savedOf>)
  return {
    virtualTime: saved.virtualTime,
    switches: new Map(saved.switches),
    jobs: new Map(saved.jobs),
    attempts: new Map(saved.attempts),
    // A file of an earlier version has none.
    waits: new Map((saved as Partial<typeof saved>).waits),
    parked: new Map((saved as Partial<typeof saved>).parked),
    dependents: new Map(
      (saved as Partial<typeof saved>).dependents?.map(([id, dependents]) => [id, new Set(dependents)]),
    ),
    signals: new Map((saved as Partial<typeof saved>).signals),
    chunks: new Map((saved as Partial<typeof saved>).chunks),
    jobByIdempotencyKey: new Map(saved.jobByIdempotencyKey),
    replacedKeys: new Map((saved as Partial<typeof saved>).replacedKeys),
    unfinishedByProject: new Map(saved.unfinishedByProject),
    lanes: new Map(saved.lanes.map(([key, lane]) => [key, { ...lane, unfinished: new Set(lane.unfinished) }])),
    charges: new Map(saved.charges),
    spendCaps: new Map(saved.spendCaps),
    reservations: new Map(saved.reservations),
    ledgerClosedUntil: saved.ledgerClosedUntil,
    uploads: new Map(saved.uploads),
    reservedBytes: new Map(saved.reservedBytes ?? []),
    purges: new Map(saved.purges),
    retentionRules: new Map(saved.retentionRules),
    projects: new Map(saved.projects),
    keys: new Map(saved.keys),
    secrets: new Map(saved.secrets),
    pausedKinds: new Set(saved.pausedKinds),
    projectConcurrency: new Map(saved.projectConcurrency),
    prices: new Map(saved.prices),
    workers: new Map(saved.workers),
    servedKinds: new Map(saved.servedKinds),
    namedSecrets: new Map(saved.namedSecrets.map(([name, bytes]) => [name, Uint8Array.from(bytes)])),
    schedules: new Map(saved.schedules),
    scopes: new Map(saved.scopes),
    deliveries: new Map(saved.deliveries),
    rateBuckets: new Map(saved.rateBuckets),
    operatorTokens: new Map((saved as Partial<typeof saved>).operatorTokens),
    minutes: new Map((saved as Partial<typeof saved>).minutes),
    lineage: saved.lineage,
  }
}
