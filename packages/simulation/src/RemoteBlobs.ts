import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { BlobNotFound, BlobTooLarge, BlobUnavailable } from "@kiln/core/domain"
import { type BlobInfo, BlobStore } from "@kiln/core/ports"
import type { Network, Remote } from "./Network.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"

/** The blobs themselves, which all processes share. */
export class Blobs {
  readonly stored = new Map<string, Uint8Array>()
  /** Calls when blobs are removed, with what they were removed for. */
  readonly onRemoved: Array<(key: string) => void> = []
  /** Calls when a blob is stored. */
  readonly onStored: Array<(key: string, process: SimulatedProcess) => void> = []

  remove(prefix: string): void {
    for (const key of this.stored.keys())
      if (key === prefix || key.startsWith(`${prefix}/`)) {
        this.stored.delete(key)
        for (const notice of this.onRemoved) notice(key)
      }
  }
}

export const infoOf = (bytes: Uint8Array): BlobInfo => ({
  bytes: bytes.length,
  sha256: createHash("sha256").update(bytes).digest("hex"),
})

const lost =
  (operation: string) =>
  (cause: string): BlobUnavailable =>
    new BlobUnavailable({ operation, cause })

/** The blob store as one process sees it over the network. A blob exists once all of it has arrived. */
export const remoteBlobStore = (
  line: {
    readonly process: SimulatedProcess
    readonly network: Network
    readonly remote: Remote
  },
  blobs: Blobs,
): BlobStore["Service"] => {
  const { network, process, remote } = line
  const call = <A, E = never>(operation: string, step: Effect.Effect<A, E>) =>
    network.call(process, { remote, operation, step, lost: lost(operation) })
  return BlobStore.of({
    put: Effect.fnUntraced(function* (key, content, { maxBytes }) {
      const bytes = yield* collect(content, maxBytes)
      return yield* call(
        `put ${key}`,
        Effect.sync(() => {
          blobs.stored.set(key, bytes)
          for (const notice of blobs.onStored) notice(key, process)
          return infoOf(bytes)
        }),
      )
    }),
    open: (key, range) =>
      call(
        `open ${key}`,
        Effect.suspend(() => {
          const bytes = blobs.stored.get(key)
          if (bytes === undefined) return Effect.fail(new BlobNotFound({ key }))
          const from = range?.offset ?? 0
          const part = bytes.slice(from, range?.length === undefined ? undefined : from + range.length)
          return Effect.succeed({ ...infoOf(bytes), content: Stream.succeed(part) })
        }),
      ),
    remove: (prefix) =>
      call(
        `remove ${prefix}`,
        Effect.sync(() => blobs.remove(prefix)),
      ),
    list: (prefix) =>
      Stream.fromIterableEffect(
        call(
          `list ${prefix}`,
          Effect.sync(() => [...blobs.stored.keys()].filter((key) => key.startsWith(`${prefix}/`))),
        ),
      ),
  })
}

const collect = Effect.fnUntraced(function* <E>(content: Stream.Stream<Uint8Array, E>, maxBytes: number) {
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  yield* Stream.runForEach(content, (chunk) =>
    Effect.suspend(() => {
      bytes += chunk.length
      chunks.push(chunk.slice())
      return bytes > maxBytes ? Effect.fail(new BlobTooLarge({ maxBytes })) : Effect.void
    }),
  )
  return new Uint8Array(Buffer.concat(chunks, bytes))
})
