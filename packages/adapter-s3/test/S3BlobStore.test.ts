import { S3BlobStore, s3Blobs } from "@kiln/adapter-s3"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { bucket, credentials, type S3Server, startS3 } from "./support/s3Server.ts"
import { onServer } from "./support/s3Store.ts"

const MIB = 1024 * 1024
const LIMIT = { maxBytes: 64 * MIB }
const bytesOf = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, n) => (n * 31 + (n >> 8)) % 251))
const inPieces = (bytes: Buffer, length: number) =>
  Stream.fromIterable(
    Array.from({ length: Math.ceil(bytes.length / length) }, (_, n) => bytes.subarray(n * length, (n + 1) * length)),
  )

const onS3 = (
  test: (store: BlobStore["Service"], server: S3Server) => Effect.Effect<void, unknown>,
  options: Parameters<typeof onServer>[1] = {},
) =>
  Effect.gen(function* () {
    const server = yield* startS3
    yield* Effect.gen(function* () {
      const store = yield* BlobStore
      server.requests.length = 0
      yield* test(store, server)
    }).pipe(Effect.provide(onServer(server, options)))
  })

const sentOf = ({ requests }: S3Server): ReadonlyArray<string> => requests.splice(0).map(({ method }) => method)

describe("requests", () => {
  it.live("a blob of one part is one PutObject with the SHA-256 as checksum and in the metadata", () =>
    onS3(
      (store, server) =>
        Effect.gen(function* () {
          const { sha256 } = yield* store.put("jobs/a/1/audio", Stream.make(bytesOf(1000)), LIMIT)
          const [request, ...others] = server.requests
          expect(others).toEqual([])
          expect(request).toMatchObject({ method: "PUT", key: "kiln/jobs/a/1/audio" })
          expect(request?.headers).toMatchObject({
            "content-length": "1000",
            "x-amz-checksum-sha256": Buffer.from(sha256, "hex").toString("base64"),
            "x-amz-meta-kiln-sha256": sha256,
          })
        }),
      { prefix: "kiln" },
    ),
  )

  it.live("12 MiB are three parts, assembled and copied, and nothing else stays", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const bytes = bytesOf(12 * MIB)
        yield* store.put("jobs/a/1/audio", inPieces(bytes, 700_000), LIMIT)
        // Begin, three parts, complete, copy, check the copy, delete.
        expect(sentOf(server)).toEqual(["POST", "PUT", "PUT", "PUT", "POST", "PUT", "HEAD", "DELETE"])
        expect(yield* Effect.promise(server.keys)).toEqual(["jobs/a/1/audio"])
        expect(server.uploads.size).toBe(0)
        const opened = yield* store.open("jobs/a/1/audio")
        const read = Buffer.concat([...(yield* Stream.runCollect(opened.content))])
        expect(Buffer.compare(read, bytes)).toBe(0)
        expect(sentOf(server)).toEqual(["HEAD", "GET"])
      }),
    ),
  )

  it.live("exactly one part is not sent in parts", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put("a/b", inPieces(bytesOf(5 * MIB), 300_000), LIMIT)
        expect(sentOf(server)).toEqual(["PUT"])
      }),
    ),
  )

  it.live("a removed prefix is one DeleteObjects", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        for (const key of ["jobs/a/1/x", "jobs/a/2/x", "jobs/ab/1/x"])
          yield* store.put(key, Stream.make(bytesOf(1)), LIMIT)
        server.requests.length = 0
        yield* store.remove("jobs/a")
        expect(
          server.requests.filter(({ method }) => method !== "GET").map(({ method, key }) => `${method} ${key}`),
        ).toEqual(["POST "])
        expect(yield* Effect.promise(server.keys)).toEqual(["jobs/ab/1/x"])
      }),
    ),
  )
})

describe("links", () => {
  const options = { expiresInSeconds: 60, contentType: "audio/mpeg", contentDisposition: 'inline; filename="a b.mp3"' }

  it.live("serve the blob, and ranges of it, to anyone, for as long as they say", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const bytes = bytesOf(1000)
        yield* store.put("jobs/a/1/audio", Stream.make(bytes), LIMIT)
        const url = new URL(yield* store.link!("jobs/a/1/audio", options))
        expect(url.searchParams.get("X-Amz-Expires")).toBe("60")
        expect(url.href).not.toContain(credentials.secretAccessKey)
        const get = (target: URL, headers = {}) => Effect.promise(() => fetch(target, { headers }))
        const whole = yield* get(url)
        expect(Buffer.from(yield* Effect.promise(() => whole.arrayBuffer()))).toEqual(bytes)
        expect(url.searchParams.get("response-content-type")).toBe("audio/mpeg")
        expect((yield* get(url, { range: "bytes=10-19" })).status).toBe(206)
        const changed = new URL(url)
        changed.searchParams.set("X-Amz-Expires", "3600")
        expect((yield* get(changed)).status).toBe(403)
        const other = new URL(url)
        other.pathname += "x"
        expect((yield* get(other)).status).toBe(403)
        yield* store.remove("jobs/a")
        expect((yield* get(url)).status).toBe(404)
        expect(server.uploads.size).toBe(0)
      }),
    ),
  )
})

describe("damage", () => {
  const damaged = (name: string, damage: (server: S3Server) => Promise<unknown>) =>
    it.live(`${name}: BlobCorrupt`, () =>
      onS3((store, server) =>
        Effect.gen(function* () {
          yield* store.put("a/b", Stream.make(bytesOf(100_000)), LIMIT)
          const { body, headers } = yield* Effect.promise(() => server.direct("HEAD", "/a/b"))
          expect(body).toHaveLength(0)
          expect(headers["x-amz-meta-kiln-bytes"]).toBe("100000")
          yield* Effect.promise(() => damage(server))
          let read = 0
          const all = Effect.flatMap(store.open("a/b"), (opened) =>
            Stream.runForEach(opened.content, (chunk) => Effect.sync(() => void (read += chunk.length))),
          )
          expect(yield* Effect.flip(all)).toMatchObject({ _tag: "BlobCorrupt", key: "a/b" })
          expect(read).toBeLessThan(100_000)
        }),
      ),
    )
  const replaceBy =
    (bytes: Buffer, change: Record<string, string> = {}) =>
    async (server: S3Server) => {
      const { headers } = await server.direct("HEAD", "/a/b")
      const kept = Object.entries(headers).filter(([name]) => name.startsWith("x-amz-meta-"))
      const metadata = {
        "content-type": "application/octet-stream",
        ...(Object.fromEntries(kept) as Record<string, string>),
      }
      expect((await server.direct("PUT", "/a/b", bytes, { ...metadata, ...change })).status).toBe(200)
    }

  damaged("a changed bit", replaceBy(bytesOf(100_000).fill(7, 500, 501)))
  damaged("cut short", replaceBy(bytesOf(99_999)))
  damaged("emptied", replaceBy(Buffer.alloc(0)))
  damaged("another digest", replaceBy(bytesOf(100_000), { "x-amz-meta-kiln-sha256": "0".repeat(64) }))
  damaged("metadata lost", (server) => server.direct("PUT", "/a/b", bytesOf(100_000)))
  damaged("emptied, with metadata to match", replaceBy(Buffer.alloc(0), { "x-amz-meta-kiln-bytes": "0" }))

  it.live("replaced by one of another length between open and read: BlobCorrupt, also for a range", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put("a/b", Stream.make(bytesOf(1000)), LIMIT)
        const whole = yield* store.open("a/b")
        const part = yield* store.open("a/b", { offset: 10, length: 5 })
        yield* Effect.promise(() => server.direct("PUT", "/a/b", bytesOf(900)))
        for (const { content } of [whole, part])
          expect((yield* Effect.flip(Stream.runDrain(content)))._tag).toBe("BlobCorrupt")
      }),
    ),
  )

  it.live("removed between open and read: BlobUnavailable, not damage", () =>
    onS3((store) =>
      Effect.gen(function* () {
        yield* store.put("a/b", Stream.make(bytesOf(1000)), LIMIT)
        const { content } = yield* store.open("a/b")
        yield* store.remove("a")
        expect((yield* Effect.flip(Stream.runDrain(content)))._tag).toBe("BlobUnavailable")
      }),
    ),
  )
})

describe("a bucket that cannot be used is a failed start that says what to do", () => {
  const refusalOf = (options: Parameters<typeof onServer>[1]) =>
    Effect.gen(function* () {
      const server = yield* startS3
      const error = yield* Effect.flip(Effect.provide(BlobStore, onServer(server, options)))
      expect(error).toMatchObject({ _tag: "BlobUnavailable", operation: "start" })
      expect(error.message).not.toContain(credentials.secretAccessKey)
      return error.message
    })
  for (const [what, options, message] of [
    ["the bucket is missing", { bucket: "another" }, "create the bucket, or correct its name"],
    ["the secret is wrong", { credentials: { ...credentials, secretAccessKey: "x" } }, "check AWS_SECRET_ACCESS_KEY"],
    ["the key is unknown", { credentials: { ...credentials, accessKeyId: "x" } }, "check AWS_ACCESS_KEY_ID"],
    ["there is no key", { credentials: () => Promise.reject(new Error("set a key")) }, "no credentials: set a key"],
  ] as const)
    it.live(what, () => Effect.map(refusalOf(options), (refusal) => expect(refusal).toContain(message)))
})

describe("options", () => {
  const good = { bucket, region: "eu-central-1", credentials }
  const given = (value: unknown): never => value as never
  it.each([
    [{ ...good, buckets: "x" }, 'unknown option "buckets" in s3Blobs(); did you mean "bucket"?'],
    [{ ...good, bucket: "No" }, "bucket must be the name of an S3 bucket"],
    [{ ...good, region: undefined }, "region must be the region of the bucket"],
    [{ ...good, region: "../x" }, "region must be the region of the bucket"],
    [{ ...good, prefix: "/a" }, "prefix must consist of"],
    [{ ...good, prefix: "a/../b" }, "prefix must consist of"],
    [{ ...good, endpoint: "minio:9000" }, "endpoint must be an http: or https: URL"],
    [{ ...good, credentials: undefined }, "credentials must have accessKeyId and secretAccessKey"],
    [{ ...good, credentials: { accessKeyId: "secret" } }, "credentials must have accessKeyId and secretAccessKey"],
    [{ ...good, partBytes: 5 * MIB - 1 }, "partBytes must be an integer between 5242880 and 1073741824"],
    [{ ...good, timeoutMs: 0 }, "timeoutMs must be a number between 1 and 3600000"],
  ])("invalid options are rejected: %#", (options, message) => {
    expect(() => s3Blobs(given(options))).toThrow(message)
  })

  it("valid ones are accepted", () => {
    expect(() => S3BlobStore.layer({ ...good, prefix: "services/kiln.v1", pathStyle: true })).not.toThrow()
  })
})
