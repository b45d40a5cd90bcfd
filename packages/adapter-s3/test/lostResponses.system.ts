import { describe, it } from "@effect/vitest"
import { S3BlobStore } from "@kiln/adapter-s3"
import { BlobStore } from "@kiln/core/ports"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { bucket, credentials, type Received, type S3Server, startS3 } from "./support/s3Server.ts"

const LIMIT = { maxBytes: 64 * 1024 * 1024 }
const KEY = "jobs/a/1/audio"
const bytes = (length: number, fill = 1) => Stream.succeed(Buffer.alloc(length, fill))
/** Sent in parts. */
const long = bytes(6 * 1024 * 1024)

const openOn = (server: S3Server) =>
  Effect.provide(BlobStore, S3BlobStore.layer({ bucket, endpoint: server.endpoint, credentials, timeoutMs: 20_000 }))

const onS3 = (check: (store: BlobStore["Service"], server: S3Server) => Effect.Effect<unknown, unknown>) => () =>
  Effect.gen(function* () {
    const server = yield* startS3
    return yield* check(yield* openOn(server), server)
  })

const must = (holds: boolean, what: string) => (holds ? Effect.void : Effect.fail(what))

const nothingLeft = Effect.fnUntraced(function* (server: S3Server) {
  yield* must((yield* Effect.promise(server.keys)).length === 0, "objects are left")
  yield* must(server.uploads.size === 0, "parts are left")
})

/** Must fail with this error. */
const failsWith = <A>(tag: string, operation: Effect.Effect<A, { readonly _tag: string }>) =>
  Effect.flatMap(Effect.flip(operation), (error) => must(error._tag === tag, error._tag))

const isListing = ({ query }: Received): boolean => query.has("list-type")

/** A put in parts that has sent one and waits for more content. */
const startPut = Effect.fnUntraced(function* (store: BlobStore["Service"]) {
  const isWaiting = yield* Deferred.make<void>()
  const pause = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(isWaiting, undefined), Effect.never))
  const putting = yield* Effect.forkChild(store.put(KEY, Stream.concat(long, pause), LIMIT))
  yield* Deferred.await(isWaiting)
  return putting
})

describe("an S3 server that loses, edits or fakes responses", () => {
  it.live(
    "a put that failed because its last response was lost is not readable",
    onS3((store, server) =>
      Effect.gen(function* () {
        server.fault = ({ method }) => (method === "PUT" ? { kind: "lose" } : undefined)
        yield* failsWith("BlobUnavailable", store.put(KEY, bytes(10), LIMIT))
        server.fault = () => undefined
        yield* failsWith("BlobNotFound", store.open(KEY))
      }),
    ),
  )
  it.live(
    "an interrupted put leaves no parts",
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* Fiber.interrupt(yield* startPut(store))
        yield* nothingLeft(server)
      }),
    ),
  )
  it.live(
    "a removal aborts the parts of an unfinished put",
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* startPut(store)
        yield* store.remove("jobs/a")
        yield* must(server.uploads.size === 0, "parts are left")
      }),
    ),
  )
  it.live(
    "a removal finds a blob that the listing lacks",
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put(KEY, bytes(10), LIMIT)
        const edit = (body: Buffer) => Buffer.from(body.toString().replace(/<Contents>[\s\S]*<\/Contents>/, ""))
        server.fault = (request) => (isListing(request) ? { kind: "edit", edit } : undefined)
        yield* store.remove(KEY)
        yield* nothingLeft(server)
      }),
    ),
  )
  it.live(
    "a removal checks that the object is gone",
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put(KEY, bytes(10), LIMIT)
        server.fault = ({ method }) => (method === "DELETE" ? { kind: "pretend" } : undefined)
        yield* failsWith("BlobUnavailable", store.remove(KEY))
      }),
    ),
  )
  it.live(
    "an incomplete listing is refused",
    onS3((store, server) => {
      const edit = (body: Buffer) => Buffer.from(body.toString().replace("<IsTruncated>false", "<IsTruncated>true"))
      server.fault = (request) => (isListing(request) ? { kind: "edit", edit } : undefined)
      return failsWith("BlobUnavailable", Stream.runDrain(store.list("jobs")))
    }),
  )
  it.live(
    "a whole read verifies the digest",
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put(KEY, bytes(1_000), LIMIT)
        const { headers } = yield* Effect.promise(() => server.direct("HEAD", `/${KEY}`))
        const metadata = Object.entries(headers).filter(([name]) => name.startsWith("x-amz-meta-"))
        const kept = Object.fromEntries(metadata) as Record<string, string>
        yield* Effect.promise(() => server.direct("PUT", `/${KEY}`, Buffer.alloc(1_000, 2), kept))
        const { content } = yield* store.open(KEY)
        yield* failsWith("BlobCorrupt", Stream.runDrain(content))
      }),
    ),
  )
  it.live(
    "a read that breaks off continues where it stopped",
    onS3((store, server) =>
      Effect.gen(function* () {
        const content = Buffer.concat([Buffer.alloc(600_000, 1), Buffer.alloc(600_000, 2)])
        yield* store.put(KEY, Stream.succeed(content), LIMIT)
        let cuts = 1
        server.fault = ({ method }) => (method === "GET" && cuts-- > 0 ? { kind: "cut", bytes: 650_000 } : undefined)
        const opened = yield* store.open(KEY)
        const read = Buffer.concat([...(yield* Stream.runCollect(opened.content))])
        yield* must(read.equals(content), "the content differs")
      }),
    ),
  )
  it.live("the sweep leaves the parts of a running process", () =>
    Effect.gen(function* () {
      const server = yield* startS3
      yield* startPut(yield* openOn(server))
      yield* openOn(server)
      yield* must(server.uploads.size === 1, "the put in progress lost its parts")
    }),
  )
  it.live("the sweep aborts the parts of a killed process", () =>
    Effect.gen(function* () {
      const server = yield* startS3
      yield* startPut(yield* openOn(server))
      for (const upload of server.uploads.values()) upload.began = new Date(Date.now() - 86_400_000).toISOString()
      yield* openOn(server)
      yield* nothingLeft(server)
    }),
  )
})
