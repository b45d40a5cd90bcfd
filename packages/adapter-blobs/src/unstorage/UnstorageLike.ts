/**
 * What is used of an unstorage instance (`createStorage({ driver })`, or a part of one from `prefixStorage`).
 * Written down here, so that nothing of unstorage is loaded or installed where it is not used.
 */
export interface UnstorageLike {
  readonly getItemRaw: (key: string) => Promise<unknown>
  readonly setItemRaw: (key: string, value: Uint8Array) => Promise<void>
  readonly removeItem: (key: string) => Promise<void>
  readonly getKeys: (base: string) => Promise<ReadonlyArray<string>>
}
