/** Adapters for programs without Effect. They hide a layer under a symbol; Effect programs use the layers directly. */
const layer = Symbol.for("@kiln/core/ports/adapters/layer")

/**
 * All record stores of one adapter. `Transaction` is the type it accepts as a caller's transaction, `never` if it accepts none.
 * So every adapter is a `StoreAdapter`, whose engine takes no transactions.
 */
export interface StoreAdapter<in Transaction = never, in SyncTransaction = never> {
  readonly "~kiln/store": {
    readonly transaction?: (transaction: Transaction) => void
    readonly syncTransaction?: (transaction: SyncTransaction) => void
  }
}
/**
 * The transactions that a store accepts. Of a store that is one of several, as in `production ? postgresStore({ url }) :
 * sqliteStore({ path })`, those that each of them accepts.
 */
export type TransactionOf<Store extends StoreAdapter> = Accepted<Store["~kiln/store"]["transaction"]>
/** The same for the synchronous verbs. */
export type SyncTransactionOf<Store extends StoreAdapter> = Accepted<Store["~kiln/store"]["syncTransaction"]>
type Accepted<Take> = [NonNullable<Take>] extends [(transaction: infer Transaction) => void] ? Transaction : never

/** A blob store. */
export interface BlobAdapter {
  readonly "~kiln/blobs": true
}
/** A media probe, which measures audio. */
export interface ProbeAdapter {
  readonly "~kiln/probe": true
}
/** Telemetry: traces and metrics. */
export interface TelemetryAdapter {
  readonly "~kiln/telemetry": true
}

const wrap = <Adapter extends object>(marked: Adapter, inside: object): Adapter =>
  Object.defineProperty(marked, layer, { value: inside, enumerable: false })

/**
 * Wraps the layer of an adapter's stores: `JobStore`, `JobDirectory`, `UploadStore`, `KeyDirectory`, `Switchboard`,
 * `SecretStore`, and optionally `WakeUp` and `CallerTransactions`.
 */
export const storeAdapter = <Transaction = never, SyncTransaction = never>(
  stores: object,
): StoreAdapter<Transaction, SyncTransaction> => wrap({ "~kiln/store": {} }, stores)
export const blobAdapter = (blobs: object): BlobAdapter => wrap({ "~kiln/blobs": true }, blobs)
export const probeAdapter = (probe: object): ProbeAdapter => wrap({ "~kiln/probe": true }, probe)
/** Wraps what loads the telemetry of an engine. */
export const telemetryAdapter = (load: () => Promise<object>): TelemetryAdapter =>
  wrap({ "~kiln/telemetry": true }, load)

/** Returns what is inside an adapter; `undefined` if the object is not an adapter. */
export const insideOf = (adapter: object): unknown => Reflect.get(adapter, layer)
