/**
 * The part of an unstorage instance (`createStorage({ driver })`, or a slice from `prefixStorage`) that kiln uses.
 * Declared here so that unstorage need not be installed or loaded by programs that do not use it.
 */
export interface UnstorageLike {
  readonly getItemRaw: (key: string) => Promise<unknown>
  readonly setItemRaw: (key: string, value: Uint8Array) => Promise<void>
  readonly removeItem: (key: string) => Promise<void>
  readonly getKeys: (base: string) => Promise<ReadonlyArray<string>>
  /** Names the driver, so that those that cannot list are refused at once. */
  readonly getMount?: (key: string) => { readonly driver: { readonly name?: string | undefined } }
}
