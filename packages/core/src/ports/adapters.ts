/** Adapters for programs without Effect. They hide a layer under a symbol; Effect programs use the layers directly. */
const layer = Symbol.for("@kiln/core/ports/adapters/layer")

/**
 * All record stores of one adapter. `Transaction` is the type it accepts as a caller's transaction, `never` if it accepts none.
 */
export interface StoreAdapter<out Transaction = never, out SyncTransaction = never> {
  readonly "~kiln/store": { readonly transaction?: Transaction; readonly syncTransaction?: SyncTransaction }
}
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
