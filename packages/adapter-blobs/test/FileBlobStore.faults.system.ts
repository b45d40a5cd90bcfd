import { mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { BlobStore } from "@kiln/core/ports"
import { afterEach, beforeEach, describe, expect, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { canRun, killAtFirstLine, runChild } from "./support/runChild.ts"

// Real processes and a real file system.
const NO_STRACE = "needs strace and permission to trace"
const NO_NAMESPACES = "needs a mount namespace: unshare, as root"
const namespaces = canRun("unshare", "--mount", "true")
const strace = canRun("strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true")

/** Injects a fault into the `nth` system call of this name. strace counts per thread, so the process must use one. */
const inject = (call: string, nth: number, what: string) => [
  "env",
  "UV_THREADPOOL_SIZE=1",
  "strace",
  "-f",
  "-qq",
  "--seccomp-bpf",
  "-o",
  "/dev/null",
  "-e",
  `inject=${call}:${what}:when=${nth}`,
]

let directory = ""
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "kiln-blobs-"))
})
afterEach(() => rmSync(directory, { recursive: true }))

const upTo = (count: number, call: string) => Array.from({ length: count }, (_, n) => [call, n + 1] as const)

/** Returns what a process that starts now finds: the length of the blob, or why it cannot be read, and the keys listed. */
const look = (key: string, at = directory) =>
  Effect.gen(function* () {
    const store = yield* BlobStore
    const read = Effect.flatMap(store.open(key), ({ content }) =>
      Stream.runFold(
        content,
        () => 0,
        (sum, chunk) => sum + chunk.length,
      ),
    )
    const found = yield* Effect.match(read, { onSuccess: (bytes) => bytes, onFailure: (error) => error._tag })
    return { found, keys: [...(yield* Stream.runCollect(store.list("jobs")))] }
  }).pipe(Effect.provide(FileBlobStore.layer({ directory: at })), Effect.runPromise)

const NOTHING = { found: "BlobNotFound", keys: [] }
const temporaryFiles = () => readdirSync(join(directory, "tmp"))

describe("kill -9", () => {
  it("in the middle of a put: nothing is readable, and the temporary file is deleted once it is old", async () => {
    expect(await killAtFirstLine("putForever", [directory, "jobs/a/1/output"])).toBe("written")
    expect(await look("jobs/a/1/output")).toEqual(NOTHING)
    const [left = "", ...others] = temporaryFiles()
    expect(others).toEqual([])
    const hourAgo = Date.now() / 1000 - 3601
    utimesSync(join(directory, "tmp", left), hourAgo, hourAgo)
    expect(await look("jobs/a/1/output")).toEqual(NOTHING)
    expect(temporaryFiles()).toEqual([])
  })

  it("in the middle of a put: removing the prefix deletes its temporary file, whatever its age", async () => {
    for (const key of ["jobs/a/1/output", "jobs/ab/1/output", "uploads/a/1"])
      expect(await killAtFirstLine("putForever", [directory, key])).toBe("written")
    const remove = (prefix: string) =>
      Effect.flatMap(BlobStore, (store) => store.remove(prefix)).pipe(
        Effect.provide(FileBlobStore.layer({ directory })),
        Effect.runPromise,
      )
    const keysLeft = () =>
      temporaryFiles()
        .map((name) => name.replace(/\.[0-9a-f-]{36}\.part$/, ""))
        .sort()
    await remove("jobs/a/2")
    expect(keysLeft()).toEqual(["jobs.a.1.output", "jobs.ab.1.output", "uploads.a.1"])
    await remove("jobs/a")
    expect(keysLeft()).toEqual(["jobs.ab.1.output", "uploads.a.1"])
    await remove("uploads/a/1")
    expect(keysLeft()).toEqual(["jobs.ab.1.output"])
  })

  it("at any sync, or at the rename: the blob is complete or absent", async ({ skip }) => {
    skip(!strace, NO_STRACE)
    const outcomes: Array<unknown> = []
    // Four syncs at startup; the file's, after which it is renamed; then those of its shard and of the two directories above it.
    for (const [call, nth] of [
      ["fsync", 4],
      ["fsync", 5],
      ["rename", 1],
      ["rename", 2],
      ...upTo(9, "fsync").slice(5),
    ] as const) {
      const at = join(directory, `${call}${nth}`)
      const line = await runChild("putOnce", [at, "jobs/a/1/output", "100000"], inject(call, nth, "signal=SIGKILL"))
      const { found, keys } = await look("jobs/a/1/output", at)
      expect(keys).toEqual(found === 100_000 ? ["jobs/a/1/output"] : [])
      outcomes.push([call, nth, line === undefined ? "killed" : line["tag"], found])
    }
    expect(outcomes).toEqual([
      ["fsync", 4, "killed", "BlobNotFound"],
      ["fsync", 5, "killed", "BlobNotFound"],
      // The first one finds no shard.
      ["rename", 1, "killed", "BlobNotFound"],
      ["rename", 2, "killed", "BlobNotFound"],
      ["fsync", 6, "killed", 100_000],
      ["fsync", 7, "killed", 100_000],
      ["fsync", 8, "killed", 100_000],
      ["fsync", 9, "Stored", 100_000],
    ])
  }, 120_000)
})

describe("system errors", () => {
  it("EIO on any sync: BlobUnavailable, nothing readable, nothing left behind", async ({ skip }) => {
    skip(!strace, NO_STRACE)
    const outcomes: Array<unknown> = []
    for (let nth = 4; nth <= 9; nth++) {
      const at = join(directory, String(nth))
      const line = await runChild("putOnce", [at, "jobs/a/1/output", "100000"], inject("fsync", nth, "error=EIO"))
      outcomes.push(line?.["tag"] === "Stored" ? "Stored" : line)
      expect(await look("jobs/a/1/output", at)).toEqual(
        line?.["tag"] === "Stored" ? { found: 100_000, keys: ["jobs/a/1/output"] } : NOTHING,
      )
      expect(readdirSync(join(at, "tmp"))).toEqual([])
    }
    const failed = (operation: string) => ({ tag: "BlobUnavailable", operation, code: "EIO" })
    expect(outcomes).toEqual([failed("start"), ...Array(4).fill(failed("put")), "Stored"])
  }, 180_000)

  it("EIO on a sync of a removal, of the temporary files or the blobs: BlobUnavailable", async ({ skip }) => {
    skip(!strace, NO_STRACE)
    expect(await killAtFirstLine("putForever", [directory, "jobs/a/1/output"])).toBe("written")
    const outcomes: Array<unknown> = []
    // After the four at startup.
    for (let nth = 5; nth <= 7; nth++)
      outcomes.push(await runChild("removeOnce", [directory, "jobs/a"], inject("fsync", nth, "error=EIO")))
    const failed = { tag: "BlobUnavailable", operation: "remove", code: "EIO" }
    expect(outcomes).toEqual([failed, failed, { tag: "Removed" }])
    expect(temporaryFiles()).toEqual([])
  }, 180_000)

  it("file size limit: BlobUnavailable, nothing readable, nothing left behind", async () => {
    // 512-byte blocks: the write that crosses the limit is partial, the next one fails.
    const limited = ["sh", "-c", `ulimit -f 300; exec "$@"`, "sh"]
    const line = await runChild("putOnce", [directory, "jobs/a/1/output", "1000000"], limited)
    expect(line).toEqual({ tag: "BlobUnavailable", operation: "put", code: "EFBIG" })
    expect(await look("jobs/a/1/output")).toEqual(NOTHING)
    expect(temporaryFiles()).toEqual([])
  })

  // In a separate mount namespace, which ends with the process.
  const mounted = (mount: string) => ["unshare", "--mount", "sh", "-c", `${mount} && exec "$@"`, "sh"]

  it("disk full: BlobUnavailable, and small blobs still fit", async ({ skip }) => {
    skip(!namespaces, NO_NAMESPACES)
    const small = mounted(`mount -t tmpfs -o size=4m tmpfs ${directory}`)
    expect(await runChild("putOnce", [directory, "jobs/a/1/output", "5000000"], small)).toEqual({
      tag: "BlobUnavailable",
      operation: "put",
      code: "ENOSPC",
    })
    expect(await runChild("putOnce", [directory, "jobs/a/1/output", "3000000"], small)).toMatchObject({ tag: "Stored" })
  })

  it("read-only file system: reads work, BlobUnavailable for puts", async ({ skip }) => {
    skip(!namespaces, NO_NAMESPACES)
    await runChild("putOnce", [directory, "jobs/a/1/output", "1000"])
    const readOnly = mounted(`mount --bind ${directory} ${directory} && mount -o remount,bind,ro ${directory}`)
    expect(await runChild("putOnce", [directory, "jobs/a/1/other", "1000"], readOnly)).toEqual({
      tag: "BlobUnavailable",
      operation: "put",
      code: "EROFS",
    })
    expect(await look("jobs/a/1/output")).toEqual({ found: 1000, keys: ["jobs/a/1/output"] })
  })
})

describe("memory", () => {
  it("50 blobs of 25 MiB at once: puts take less than 100 MiB, reads less than 250 MiB", async () => {
    const { base, afterPuts, afterReads, bytes } = (await runChild("putMany", [directory])) ?? {}
    expect(bytes).toBe(50 * 25 * 1024 * 1024)
    expect(Number(afterPuts) - Number(base)).toBeLessThan(100)
    // Each chunk read is a separate buffer, which waits for the garbage collector.
    expect(Number(afterReads) - Number(base)).toBeLessThan(250)
  }, 120_000)
})
