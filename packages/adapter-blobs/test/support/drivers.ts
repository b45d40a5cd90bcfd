import type { UnstorageLike } from "@kiln/adapter-blobs"
import { createStorage, type Driver } from "unstorage"

/** A driver without a raw form, like unstorage's redis driver: everything is text. */
export const textDriver = (): Driver => {
  const items = new Map<string, string>()
  return {
    hasItem: (key) => items.has(key),
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => {
      items.set(key, value)
    },
    removeItem: (key) => {
      items.delete(key)
    },
    getKeys: () => [...items.keys()],
  }
}

/** Lists everything regardless of the prefix, and returns a different type each time. */
export const carelessStorage = (): UnstorageLike => {
  const items = new Map<string, Uint8Array>()
  let reads = 0
  return {
    getItemRaw: async (key) => {
      const item = items.get(key)
      if (item === undefined) return [null, undefined][reads++ % 2]
      const bytes = Uint8Array.from(item)
      const forms = [
        bytes.buffer,
        Buffer.from(bytes),
        bytes,
        new DataView(bytes.buffer),
        new Blob([bytes]),
        `base64:${Buffer.from(bytes).toString("base64")}`,
      ]
      return forms[reads++ % forms.length]
    },
    setItemRaw: async (key, value) => {
      items.set(key, Uint8Array.from(value))
    },
    removeItem: async (key) => {
      items.delete(key)
    },
    getKeys: async () => [...items.keys(), "~other:thing", "jobs", "jobsx", "", ...items.keys()],
  }
}

/** A storage whose driver can be made to misbehave, and whose items can be inspected. */
export interface TrickyStorage extends UnstorageLike {
  readonly items: Map<string, Uint8Array>
  /** Runs before, or instead of, each verb: a returned value is the driver's answer. */
  readonly tricks: {
    get?: ((key: string) => unknown) | undefined
    set?: ((key: string, value: Uint8Array) => unknown) | undefined
    remove?: ((key: string) => unknown) | undefined
    keys?: ((keys: ReadonlyArray<string>) => ReadonlyArray<string> | Error) | undefined
  }
  /** Keys read, in order. */
  readonly reads: Array<string>
}

/** Creates a real unstorage instance with a driver defined here. */
export const trickyStorage = (): TrickyStorage => {
  const items = new Map<string, Uint8Array>()
  const tricks: TrickyStorage["tricks"] = {}
  const reads: Array<string> = []
  const driver: Driver = {
    hasItem: (key) => items.has(key),
    getItem: () => null,
    getItemRaw: (key) => {
      reads.push(key)
      return tricks.get?.(key) ?? items.get(key) ?? null
    },
    setItemRaw: (key, value: Uint8Array) => {
      const answer = tricks.set?.(key, value)
      // As in unstorage's own fs driver: the error is the value.
      if (answer !== undefined) return answer as never
      items.set(key, value)
    },
    removeItem: (key) => {
      const answer = tricks.remove?.(key)
      if (answer !== undefined) return answer as never
      items.delete(key)
    },
    getKeys: () => (tricks.keys?.([...items.keys()]) ?? [...items.keys()]) as never,
  }
  return Object.assign(createStorage({ driver }), { items, tricks, reads })
}
