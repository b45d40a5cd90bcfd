/**
 * What adapters give to programs without Effect, which need not see what is inside: a layer, kept under a symbol. Effect
 * programs use the layers themselves.
 */
const layer = Symbol.for("@kiln/core/ports/adapters/layer")

/** All record stores of one adapter. `Transaction` is what it takes as a transaction of the caller's, `never` where it takes none. */
export interface StoreAdapter<out Transaction = never, out SyncTransaction = never> {
  readonly "~kiln/store": { readonly transaction?: Transaction; readonly syncTransaction?: SyncTransaction }
}
/** A place for bytes. */
export interface BlobAdapter {
  readonly "~kiln/blobs": true
}
/** Something that measures audio. */
export interface ProbeAdapter {
  readonly "~kiln/probe": true
}

const wrap = <Adapter extends object>(marked: Adapter, inside: object): Adapter =>
  Object.defineProperty(marked, layer, { value: inside, enumerable: false })

/** Wraps the layer of an adapter's stores: `JobStore`, `JobDirectory`, `UploadStore`, `KeyDirectory`, `Switchboard`, `SecretStore`; `WakeUp` and `CallerTransactions` where it has them. */
export const storeAdapter = <Transaction = never, SyncTransaction = never>(
  stores: object,
): StoreAdapter<Transaction, SyncTransaction> => wrap({ "~kiln/store": {} }, stores)
export const blobAdapter = (blobs: object): BlobAdapter => wrap({ "~kiln/blobs": true }, blobs)
export const probeAdapter = (probe: object): ProbeAdapter => wrap({ "~kiln/probe": true }, probe)

/** What is inside of an adapter; `undefined` where it is none. */
export const insideOf = (adapter: object): unknown => Reflect.get(adapter, layer)
