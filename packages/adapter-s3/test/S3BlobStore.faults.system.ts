import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { join } from "node:path"
import { BlobStore } from "@kiln/core/ports"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { type Fault, type Received, type S3Server, startS3 } from "./support/s3Server.ts"
import { onServer } from "./support/s3Store.ts"

const MIB = 1024 * 1024
const LIMIT = { maxBytes: 64 * MIB }
const bytesOf = (length: number): Buffer => Buffer.alloc(length, Buffer.from("0123456789abcdefghijklmnopqrstuvw"))
const inPieces = (bytes: Buffer) =>
  Stream.fromIterable(
    Array.from({ length: Math.ceil(bytes.length / 500_000) }, (_, n) => bytes.subarray(n * 500_000, (n + 1) * 500_000)),
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
    }).pipe(Effect.provide(onServer(server, { timeoutMs: 20_000, ...options })))
  })

/** The first `times` requests that match fail so. */
const failing = (
  server: S3Server,
  times: number,
  fault: Fault,
  matches: (request: Received) => boolean = () => true,
) => {
  let left = times
  server.fault = (request) => (matches(request) && left-- > 0 ? fault : undefined)
}

const readAll = (store: BlobStore["Service"], key: string, range?: { offset: number; length?: number }) =>
  Effect.flatMap(store.open(key, range), ({ content }) =>
    Effect.map(Stream.runCollect(content), (chunks) => Buffer.concat([...chunks])),
  )

const nothingLeft = Effect.fnUntraced(function* (server: S3Server) {
  expect(yield* Effect.promise(server.keys)).toEqual([])
  expect(server.uploads.size).toBe(0)
})

/** The timeout of a request. Only requests that get no response should reach it. */
const timeoutFor = ({ kind }: Fault, stallMs: number) => ({ timeoutMs: kind === "stall" ? stallMs : 20_000 })

const passing: Readonly<Record<string, Fault>> = {
  "503 SlowDown": { kind: "respond", status: 503, code: "SlowDown" },
  "500 InternalError": { kind: "respond", status: 500, code: "InternalError" },
  "a refused connection": { kind: "refuse" },
  "a lost response": { kind: "lose" },
  "no response": { kind: "stall" },
}

// They mostly wait for timeouts and retries, each with its own server.
describe("faults that pass are retried", { concurrent: true }, () => {
  for (const [name, fault] of Object.entries(passing))
    it.live(`${name}, at every request of a put in parts, a read and a removal`, () =>
      onS3(
        (store, server) =>
          Effect.gen(function* () {
            const bytes = bytesOf(11 * MIB)
            // Each request fails once.
            const seen = new Set<string>()
            server.fault = ({ headers, key, method, query }) => {
              const id = `${method} ${key} ${query} ${headers.range} ${String(headers["x-amz-copy-source"])}`
              const isNew = !seen.has(id)
              seen.add(id)
              return isNew ? fault : undefined
            }
            yield* store.put("jobs/a/1/audio", inPieces(bytes), LIMIT)
            expect(Buffer.compare(yield* readAll(store, "jobs/a/1/audio"), bytes)).toBe(0)
            expect(yield* Stream.runCollect(store.list("jobs"))).toEqual(["jobs/a/1/audio"])
            yield* store.put("jobs/b", Stream.make(bytes.subarray(0, 10)), LIMIT)
            yield* store.remove("jobs")
            expect(yield* Effect.promise(server.keys)).toEqual([])
            expect(server.uploads.size).toBe(0)
          }),
        // Long enough for a part on a busy machine.
        timeoutFor(fault, 1_500),
      ),
    )

  it.live("a read that breaks off continues where it stopped", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const bytes = bytesOf(4 * MIB)
        yield* store.put("a/b", inPieces(bytes), LIMIT)
        failing(server, 3, { kind: "cut", bytes: 600_000 }, ({ method }) => method === "GET")
        server.requests.length = 0
        expect(Buffer.compare(yield* readAll(store, "a/b"), bytes)).toBe(0)
        const ranges = server.requests.flatMap(({ headers }) => headers.range ?? [])
        expect(ranges).toHaveLength(3)
        expect(ranges[0]).toMatch(/^bytes=[1-9]\d*-4194303$/)
        failing(server, 1, { kind: "cut", bytes: 10 }, ({ method }) => method === "GET")
        const part = yield* readAll(store, "a/b", { offset: 100, length: 1000 })
        expect(Buffer.compare(part, bytes.subarray(100, 1100))).toBe(0)
      }),
    ),
  )
})

describe("faults that stay end, in bounds", { concurrent: true }, () => {
  for (const [name, fault] of Object.entries(passing))
    it.live(`${name}: BlobUnavailable from every operation after five tries`, () =>
      onS3(
        (store, server) =>
          Effect.gen(function* () {
            const bytes = bytesOf(1000)
            yield* store.put("kept/a", Stream.make(bytes), LIMIT)
            const { content } = yield* store.open("kept/a")
            for (const operation of [
              store.open("kept/a"),
              Stream.runDrain(content),
              store.remove("kept/a"),
              Stream.runDrain(store.list("kept")),
            ]) {
              server.requests.length = 0
              server.fault = () => fault
              expect((yield* Effect.flip<unknown, { readonly _tag: string }, never>(operation))._tag).toBe(
                "BlobUnavailable",
              )
              const tries = server.requests.length
              // A removal begins with two requests at once.
              expect(tries >= 5 && tries <= 10, `${tries} tries`).toBe(true)
            }
            // A failed put leaves nothing that can be read afterwards.
            server.fault = ({ method }) => (method === "PUT" ? fault : undefined)
            expect((yield* Effect.flip(store.put("new/a", Stream.make(bytes), LIMIT)))._tag).toBe("BlobUnavailable")
            server.fault = () => undefined
            expect((yield* Effect.flip(store.open("new/a")))._tag).toBe("BlobNotFound")
            expect(Buffer.compare(yield* readAll(store, "kept/a"), bytes)).toBe(0)
          }),
        timeoutFor(fault, 500),
      ),
    )

  const isPart = ({ query }: Received) => query.has("partNumber")
  const steps: Readonly<Record<string, (request: Received) => boolean>> = {
    "the beginning": ({ query }) => query.has("uploads"),
    "the first part": isPart,
    "the last part": (request) => isPart(request) && request.query.get("partNumber") === "3",
    "the completion": ({ method, query }) => method === "POST" && query.has("uploadId"),
    "the copy": ({ headers }) => headers["x-amz-copy-source"] !== undefined,
  }
  for (const [step, matches] of Object.entries(steps))
    it.live(`a put in parts that fails at ${step} leaves nothing`, () =>
      onS3((store, server) =>
        Effect.gen(function* () {
          for (const fault of [passing["503 SlowDown"]!, { kind: "refuse" } as const]) {
            failing(server, 1_000, fault, matches)
            const error = yield* Effect.flip(store.put("a/b", inPieces(bytesOf(12 * MIB)), LIMIT))
            expect(error._tag).toBe("BlobUnavailable")
            server.fault = () => undefined
            yield* nothingLeft(server)
          }
        }),
      ),
    )

  const declaration = '<?xml version="1.0" encoding="UTF-8"?>'
  const error = (code: string, name = "Error") => `<${name}><Code>${code}</Code><Message>test</Message></Error>`
  /** Responses with status 200 to requests that were not carried out: S3 keeps a connection open with white space. */
  const untrueSuccesses: Readonly<Record<string, string>> = {
    "an error": declaration + error("InternalError"),
    "an error after white space": declaration + " ".repeat(4_000) + error("InternalError"),
    "an error with a namespace":
      " ".repeat(600) + error("SlowDown", 'Error xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'),
    "white space alone": declaration + " ".repeat(4_000),
    "no body": "",
    "a result that is cut off": `${declaration}<CopyObjectResult><ETag>&quot;1&quot;</ETag>`,
  }
  const lateSteps = ["the completion", "the copy"]
  for (const [what, body] of Object.entries(untrueSuccesses))
    for (const step of lateSteps)
      it.live(`${step} with status 200 and ${what}: repeated, and a failure if it stays`, () =>
        onS3((store, server) =>
          Effect.gen(function* () {
            const bytes = bytesOf(6 * MIB)
            failing(server, 2, { kind: "pretend", body }, steps[step])
            yield* store.put("a/b", inPieces(bytes), LIMIT)
            expect(Buffer.compare(yield* readAll(store, "a/b"), bytes)).toBe(0)
            yield* store.remove("a/b")
            failing(server, 1_000, { kind: "pretend", body }, steps[step])
            expect((yield* Effect.flip(store.put("a/b", inPieces(bytes), LIMIT)))._tag).toBe("BlobUnavailable")
            server.fault = () => undefined
            yield* nothingLeft(server)
          }),
        ),
      )

  it.live("a copy counts by the checksum in its response, otherwise by the headers of the copy", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const bytes = bytesOf(6 * MIB)
        const isCopyChecked = () => server.requests.some(({ key, method }) => method === "HEAD" && key.startsWith("a/"))
        const withChecksum = (digest: Buffer): Fault => ({
          kind: "edit",
          edit: (body) =>
            Buffer.from(
              body
                .toString()
                .replace(
                  "</CopyObjectResult>",
                  `<ChecksumSHA256>${digest.toString("base64")}</ChecksumSHA256></CopyObjectResult>`,
                ),
            ),
        })
        // This server returns no checksum.
        yield* store.put("a/none", inPieces(bytes), LIMIT)
        expect(isCopyChecked()).toBe(true)
        server.requests.length = 0
        failing(server, 1, withChecksum(createHash("sha256").update(bytes).digest()), steps["the copy"])
        yield* store.put("a/right", inPieces(bytes), LIMIT)
        expect(isCopyChecked()).toBe(false)
        failing(server, 1, withChecksum(Buffer.alloc(32)), steps["the copy"])
        expect((yield* Effect.flip(store.put("a/wrong", inPieces(bytes), LIMIT)))._tag).toBe("BlobUnavailable")
        // Says that it copied, and did not.
        const untrue: Fault = { kind: "pretend", body: "<CopyObjectResult><ETag>1</ETag></CopyObjectResult>" }
        failing(server, 1_000, untrue, steps["the copy"])
        expect((yield* Effect.flip(store.put("a/untrue", inPieces(bytes), LIMIT)))._tag).toBe("BlobUnavailable")
        expect(yield* Effect.promise(server.keys)).toEqual(["a/none", "a/right"])
      }),
    ),
  )

  it.live("403 is not retried", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        server.fault = () => ({ kind: "respond", status: 403, code: "AccessDenied" })
        const error = yield* Effect.flip(store.put("a/b", Stream.make(bytesOf(10)), LIMIT))
        expect(error).toMatchObject({ _tag: "BlobUnavailable", operation: "put" })
        expect(error.message).toContain("allow s3:ListBucket")
        // The put, and the attempt to remove what it may have written.
        expect(server.requests.map(({ method }) => method)).toEqual(["PUT", "DELETE"])
      }),
    ),
  )

  it.live("bytes that change on the way are rejected by S3", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        server.fault = ({ headers, method }) => {
          if (method === "PUT") headers["x-amz-checksum-sha256"] = Buffer.alloc(32).toString("base64")
          return undefined
        }
        expect((yield* Effect.flip(store.put("a/b", Stream.make(bytesOf(10)), LIMIT)))._tag).toBe("BlobUnavailable")
        yield* nothingLeft(server)
      }),
    ),
  )
})

describe("listings", () => {
  it.live("2,500 blobs are listed in pages and removed in batches", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const keys = Array.from({ length: 2_500 }, (_, n) => `jobs/j${n}/1/audio`)
        yield* Effect.forEach(keys, (key) => store.put(key, Stream.make(bytesOf(3)), LIMIT), {
          concurrency: 16,
          discard: true,
        })
        yield* store.put("jobsother/a", Stream.make(bytesOf(3)), LIMIT)
        server.requests.length = 0
        expect([...(yield* Stream.runCollect(store.list("jobs")))].toSorted()).toEqual(keys.toSorted())
        expect(server.requests.filter(({ query }) => query.has("list-type"))).toHaveLength(3)
        server.requests.length = 0
        yield* store.remove("jobs")
        expect(server.requests.filter(({ query }) => query.has("delete"))).toHaveLength(3)
        expect(yield* Stream.runCollect(store.list("jobs"))).toEqual([])
        expect(yield* Effect.promise(server.keys)).toEqual(["jobsother/a"])
      }),
    ),
  )

  const isListing = ({ query }: Received) => query.has("list-type") && !(query.get("prefix") ?? "").startsWith("_parts")
  const without = (body: Buffer, key: string): Buffer =>
    Buffer.from(
      body
        .toString()
        .replace(/<Contents>[\s\S]*?<\/Contents>/g, (content) => (content.includes(`>${key}<`) ? "" : content)),
    )

  it.live("a stale listing that lacks a new blob does not keep it from being removed by its key", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/audio", Stream.make(bytesOf(3)), LIMIT)
        server.fault = (request) =>
          isListing(request) ? { kind: "edit", edit: (body) => without(body, "jobs/a/1/audio") } : undefined
        yield* store.remove("jobs/a/1/audio")
        yield* nothingLeft(server)
      }),
    ),
  )

  it.live("a stale listing that still has removed blobs does not fail the removal", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        for (const key of ["jobs/a/1/audio", "jobs/a/2/audio"]) yield* store.put(key, Stream.make(bytesOf(3)), LIMIT)
        const stale = (yield* Effect.promise(() => server.direct("GET", "?list-type=2&prefix=jobs/a"))).body
        server.fault = (request) => (isListing(request) ? { kind: "edit", edit: () => stale } : undefined)
        yield* store.remove("jobs/a")
        yield* nothingLeft(server)
        // The reader of such a listing finds nothing under the key.
        expect(yield* Stream.runCollect(store.list("jobs/a"))).toHaveLength(2)
        expect((yield* Effect.flip(store.open("jobs/a/1/audio")))._tag).toBe("BlobNotFound")
      }),
    ),
  )

  it.live("objects that a service says it deleted, and did not: BlobUnavailable", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        for (const key of ["jobs/a/1/audio", "jobs/a/2/audio"]) yield* store.put(key, Stream.make(bytesOf(3)), LIMIT)
        server.fault = ({ method, query }) =>
          query.has("delete") || method === "DELETE" ? { kind: "pretend" } : undefined
        expect((yield* Effect.flip(store.remove("jobs/a")))._tag).toBe("BlobUnavailable")
        expect(yield* Effect.promise(server.keys)).toHaveLength(2)
      }),
    ),
  )

  it.live("an incomplete page without a token is an error, not the end", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put("jobs/a/1/audio", Stream.make(bytesOf(3)), LIMIT)
        const edit = (body: Buffer) => Buffer.from(body.toString().replace(/<IsTruncated>false/, "<IsTruncated>true"))
        server.fault = (request) => (isListing(request) ? { kind: "edit", edit } : undefined)
        for (const operation of [Stream.runDrain(store.list("jobs")), store.remove("jobs")])
          expect((yield* Effect.flip(operation)).message).toContain("does not support ListObjectsV2")
      }),
    ),
  )
})

describe("what a process leaves behind", () => {
  it.live("25 MiB are ten requests", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        yield* store.put("uploads/a/1", inPieces(bytesOf(25 * MIB)), LIMIT)
        // Begin, five parts, complete, copy, check the copy (not where its response has the checksum), delete.
        expect(server.requests).toHaveLength(10)
      }),
    ),
  )

  it.live("killed in the middle of a multipart: nothing is readable, and the sweep leaves nothing", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const program = join(import.meta.dirname, "support/putForever.ts")
        const child = spawn(
          process.execPath,
          ["--conditions=@kiln/source", program, server.endpoint, "jobs/a/1/audio"],
          {
            stdio: "inherit",
          },
        )
        const sent = yield* Deferred.make<void>()
        server.fault = ({ query }) => {
          if (query.get("partNumber") === "3") Effect.runSync(Deferred.succeed(sent, undefined))
          return undefined
        }
        yield* Deferred.await(sent)
        const exited = once(child, "exit")
        child.kill("SIGKILL")
        yield* Effect.promise(() => exited)
        server.fault = () => undefined
        expect((yield* Effect.flip(store.open("jobs/a/1/audio")))._tag).toBe("BlobNotFound")
        expect(yield* Stream.runCollect(store.list("jobs"))).toEqual([])
        expect(server.uploads.size).toBe(1)
        const restart = Effect.provide(Effect.service(BlobStore), onServer(server))
        // A put of a living process is younger than a day.
        yield* restart
        expect(server.uploads.size).toBe(1)
        for (const upload of server.uploads.values()) upload.began = new Date(Date.now() - 86_400_000).toISOString()
        yield* restart
        yield* nothingLeft(server)
      }),
    ),
  )

  it.live("killed between completion and copy: the sweep removes the object, and no object of others", () =>
    onS3((_, server) =>
      Effect.gen(function* () {
        const left = `_parts/jobs/a/1/audio/${crypto.randomUUID()}`
        const theirs = ["_parts/catalogue.csv", "_parts/jobs/a/1/audio/notes"]
        for (const key of [left, ...theirs]) yield* Effect.promise(() => server.direct("PUT", `/${key}`, bytesOf(10)))
        yield* Effect.provide(Effect.service(BlobStore), onServer(server))
        expect(yield* Effect.promise(server.keys)).toHaveLength(3)
        yield* Effect.provide(Effect.service(BlobStore), onServer(server, { abandonedAfterMs: 0 }))
        expect((yield* Effect.promise(server.keys)).toSorted()).toEqual(theirs)
      }),
    ),
  )

  it.live("the sweep goes on after an upload that cannot be aborted, and after a batch that cannot be deleted", () =>
    onS3((_, server) =>
      Effect.gen(function* () {
        const partOf = (n: number) => `_parts/jobs/a/${n}/audio/${crypto.randomUUID()}`
        for (const n of [1, 2, 3]) {
          const key = partOf(n)
          const { body } = yield* Effect.promise(() => server.direct("POST", `/${key}?uploads=`))
          const id = /<UploadId>(.*)<\/UploadId>/.exec(body.toString())?.[1] ?? ""
          server.uploads.set(id, { key, began: new Date(0).toISOString() })
        }
        for (let n = 1; n <= 1_002; n++)
          yield* Effect.promise(() => server.direct("PUT", `/${partOf(n)}`, Buffer.from("p")))
        const [first] = server.uploads.keys()
        let batches = 0
        server.fault = ({ method, query }) =>
          query.get("uploadId") === first || (method === "POST" && query.has("delete") && batches++ === 0)
            ? { kind: "respond", status: 403, code: "AccessDenied" }
            : undefined
        yield* Effect.provide(Effect.service(BlobStore), onServer(server, { abandonedAfterMs: 0 }))
        expect([...server.uploads.keys()]).toEqual([first])
        const { body: left } = yield* Effect.promise(() => server.direct("GET", "?list-type=2&max-keys=1000"))
        expect(left.toString()).toContain("<KeyCount>1000</KeyCount>")
        expect(left.toString()).toContain("<IsTruncated>false</IsTruncated>")
        server.fault = () => undefined
        yield* Effect.provide(Effect.service(BlobStore), onServer(server, { abandonedAfterMs: 0 }))
        yield* nothingLeft(server)
      }),
    ),
  )

  it.live("a removal takes the parts of an unfinished put, which then fails", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const waiting = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const pause = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(waiting, undefined), Deferred.await(go)))
        const bytes = bytesOf(11 * MIB)
        const content = Stream.concat(Stream.concat(inPieces(bytes), pause), inPieces(bytes))
        const putting = yield* Effect.forkChild(Effect.flip(store.put("jobs/a/1/audio", content, LIMIT)))
        yield* Deferred.await(waiting)
        expect(server.uploads.size).toBe(1)
        yield* store.remove("jobs/a")
        expect(server.uploads.size).toBe(0)
        yield* Deferred.succeed(go, undefined)
        expect((yield* Fiber.join(putting))._tag).toBe("BlobUnavailable")
        yield* nothingLeft(server)
      }),
    ),
  )

  it.live("an interrupted put in parts leaves nothing", () =>
    onS3((store, server) =>
      Effect.gen(function* () {
        const waiting = yield* Deferred.make<void>()
        const pause = Stream.fromEffectDrain(Effect.andThen(Deferred.succeed(waiting, undefined), Effect.never))
        const putting = yield* Effect.forkChild(
          store.put("jobs/a/1/audio", Stream.concat(inPieces(bytesOf(11 * MIB)), pause), LIMIT),
        )
        yield* Deferred.await(waiting)
        yield* Fiber.interrupt(putting)
        yield* nothingLeft(server)
      }),
    ),
  )
})
