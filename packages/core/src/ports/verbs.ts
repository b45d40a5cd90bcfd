import type * as Effect from "effect/Effect"
import type { DeliveryStore } from "./DeliveryStore.ts"
import type { JobDirectory } from "./JobDirectory.ts"
import type { JobStore } from "./JobStore.ts"
import type { KeyDirectory } from "./KeyDirectory.ts"
import type { ScheduleStore } from "./ScheduleStore.ts"
import type { SecretStore } from "./SecretStore.ts"
import type { Switchboard } from "./Switchboard.ts"
import type { UploadStore } from "./UploadStore.ts"

/** The ports of a record store, by name. */
interface StorePorts {
  readonly JobStore: JobStore["Service"]
  readonly JobDirectory: JobDirectory["Service"]
  readonly UploadStore: UploadStore["Service"]
  readonly KeyDirectory: KeyDirectory["Service"]
  readonly Switchboard: Switchboard["Service"]
  readonly SecretStore: SecretStore["Service"]
  readonly ScheduleStore: ScheduleStore["Service"]
  readonly DeliveryStore: DeliveryStore["Service"]
}

/** The name of a port of a record store: the key of its service, and of its entry in `storeVerbs`. */
export type StorePortName = keyof StorePorts

/** The effect of a verb on records: `read` never changes them, `write` may. */
export type VerbNature = "read" | "write"

type AnyEffect = Effect.Effect<unknown, unknown>

/** A member of a port that can be called: an effect, or a function that returns one. The rest is data. */
type VerbName<Service> = {
  readonly [Name in keyof Service]: Service[Name] extends AnyEffect | ((...input: never) => AnyEffect) ? Name : never
}[keyof Service]

/** The nature of each verb of each port. A missing verb, or one that the port does not have, does not compile. */
export type StoreVerbs = {
  readonly [Port in StorePortName]: { readonly [Verb in VerbName<StorePorts[Port]>]: VerbNature }
}

/**
 * Declares for each verb of each port whether it reads or writes. Wrappers that save, observe or count only one of the two
 * consult this table and never the verb's name. A verb without an entry does not compile.
 */
export const storeVerbs = {
  JobStore: {
    createJobs: "write",
    createAndClaimJobs: "write",
    findJobs: "read",
    pollJobs: "read",
    findByIdempotencyKey: "read",
    findFile: "read",
    claimJobs: "write",
    extendLeases: "write",
    checkpointJobs: "write",
    appendChunks: "write",
    readChunks: "read",
    countChunks: "read",
    completeJobs: "write",
    completeAndClaimJobs: "write",
    failJobs: "write",
    deferJobs: "write",
    releaseJobs: "write",
    signalJobs: "write",
    listSignals: "read",
    cancelJobs: "write",
    rescheduleJobs: "write",
    checkClaims: "read",
    expireJobs: "write",
    eraseJobs: "write",
    publishRetention: "write",
    readRetention: "read",
    expireData: "write",
    deleteJobs: "write",
    // Closes the ledger up to the end of what it lists.
    listCharges: "write",
    listPurges: "read",
    nextPurges: "read",
    postponePurges: "write",
    hastenPurges: "write",
    confirmPurges: "write",
    findOrphans: "read",
    readLineage: "read",
    writeLineage: "write",
  },
  JobDirectory: {
    listJobs: "read",
    countJobs: "read",
    measureQueue: "read",
    readJobs: "read",
    listAttempts: "read",
    listWaits: "read",
    findPlace: "read",
    listKinds: "read",
    listFinished: "read",
  },
  UploadStore: {
    createUploads: "write",
    findUpload: "read",
    claimUpload: "write",
    extendUpload: "write",
    completeUpload: "write",
    releaseUpload: "write",
    keptBytes: "read",
    expireUploads: "write",
    deleteUploads: "write",
    findUploadOrphans: "read",
  },
  KeyDirectory: {
    createProject: "write",
    disableProject: "write",
    listProjects: "read",
    createKey: "write",
    createFirstKey: "write",
    listKeys: "read",
    limitKey: "write",
    revokeKey: "write",
    rotateKey: "write",
    pruneKeys: "write",
    identifyKey: "read",
    findKey: "read",
    touchKeys: "write",
  },
  Switchboard: {
    readBoard: "read",
    pauseKind: "write",
    limitProject: "write",
    setSwitch: "write",
    setPrice: "write",
    activatePrice: "write",
    listPrices: "read",
    setSpendCap: "write",
    listSpending: "read",
    publishWorker: "write",
    listWorkers: "read",
  },
  SecretStore: { getOrCreate: "write", find: "read", replace: "write", remove: "write" },
  ScheduleStore: { listSchedules: "read", findSchedule: "read", nextSchedules: "read", writeSchedule: "write" },
  DeliveryStore: {
    claimDeliveries: "write",
    settleDeliveries: "write",
    redeliver: "write",
    listDeliveries: "read",
    countDeliveries: "read",
  },
} as const satisfies StoreVerbs

type OfNature<Port extends StorePortName, Nature extends VerbNature> = {
  readonly [P in Port]: {
    readonly [Verb in keyof (typeof storeVerbs)[P]]: (typeof storeVerbs)[P][Verb] extends Nature ? Verb : never
  }[keyof (typeof storeVerbs)[P]]
}[Port]

/** The verbs of a port that are declared to read. */
export type ReadVerb<Port extends StorePortName = StorePortName> = OfNature<Port, "read">
/** The verbs of a port that are declared to write. */
export type WriteVerb<Port extends StorePortName = StorePortName> = OfNature<Port, "write">

/** Returns whether a verb is declared to read or to write. Throws `TypeError` for a verb that its port does not declare. */
export const natureOf = (port: StorePortName, verb: string): VerbNature => {
  const declared: Readonly<Record<string, VerbNature>> = storeVerbs[port]
  const nature = Object.hasOwn(declared, verb) ? declared[verb] : undefined
  if (nature === undefined) throw new TypeError(`${port}.${verb} is not declared in storeVerbs`)
  return nature
}
