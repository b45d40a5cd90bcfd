import { createHash } from "node:crypto"
import { readdirSync } from "node:fs"
import { Effect, Stream } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { BlobStore, UploadStore } from "@kiln/core/ports"
import { until } from "@kiln/service-lab"
import { Client, type Upload, wav } from "../crash/support/Client.ts"
import { Fleet, patience } from "./support/Fleet.ts"

/** Two processes that answer requests, and none that runs jobs. */

const fifty = Array.from({ length: 50 }, (_, n) => n)

const unlimited = { per_minute: 0 }
const onlyDeletions = JSON.stringify({
  create: unlimited,
  upload: unlimited,
  read: unlimited,
  delete: { per_minute: 60, burst: 30 },
})

const countBy = (names: ReadonlyArray<string | number>) => {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

const outcomeOf = async (response: Response): Promise<string | number> => {
  const text = await response.text()
  return response.ok ? response.status : (JSON.parse(text) as { readonly error: { code: string } }).error.code
}

describe("two processes on one database", () => {
  let fleet: Fleet
  let urls: ReadonlyArray<string>
  beforeAll(async () => {
    fleet = await Fleet.open()
    const apis = await fleet.apis({ env: { KILN_QUEUE_CAP: "5", KILN_RATE_LIMITS: onlyDeletions } })
    urls = apis.map(({ url }) => url)
  }, patience.timeout)
  afterAll(() => fleet[Symbol.asyncDispose]())

  /** Both of them, asked with a key of the test's own. */
  const clients = async () => {
    const { id, secret } = await fleet.newKey()
    const all = urls.map((url) => new Client(url, secret))
    /** The process for the next request. */
    const inTurn = (n: number): Client => all[n % all.length] ?? new Client("", "")
    return { keyId: id, all, inTurn }
  }

  it("fifty creations with one idempotency key create one job, and all get the same response", async () => {
    const { inTurn } = await clients()
    const answers = await Promise.all(
      fifty.map(async (n) => {
        const response = await inTurn(n).post("/v1/audio/speech", { input: "one of fifty" }, "the-same")
        return { response, body: await response.text() }
      }),
    )
    expect(countBy(answers.map(({ response }) => response.status))).toEqual({ 202: 50 })
    expect(new Set(answers.map(({ body }) => body)).size).toBe(1)
    const replayed = answers.map(({ response }) => String(response.headers.get("idempotency-replayed")))
    expect(countBy(replayed)).toEqual({ true: 49, null: 1 })
    const { id } = JSON.parse(answers[0]?.body ?? "") as { readonly id: string }
    expect(await fleet.takeAll()).toEqual([id])
  })

  it("sixty requests a minute are sixty for both together, after the burst", async () => {
    const { all } = await clients()
    const beginAt = performance.now()
    const served: Array<number> = []
    const retryAfter = new Set<string | null>()
    const hammer = async (client: Client) => {
      while (performance.now() - beginAt < 4_000) {
        const response = await client.erase("job_00000000000000000000000000")
        await response.body?.cancel()
        if (response.status === 404) served.push(performance.now() - beginAt)
        else retryAfter.add(`${response.status} ${response.headers.get("retry-after")}`)
      }
    }
    await Promise.all(all.flatMap((client) => [hammer(client), hammer(client)]))
    const lastedMs = performance.now() - beginAt
    // Thirty at once, and one more for each second.
    expect(served.length).toBeLessThanOrEqual(30 + lastedMs / 1_000 + 1)
    expect(served.length).toBeGreaterThanOrEqual(30)
    expect([...retryAfter]).toEqual(["429 1"])
  })

  it("of fifty jobs for one upload, one is accepted", async () => {
    const { inTurn } = await clients()
    const upload_id = await inTurn(0).upload(wav(128))
    const outcomes = await Promise.all(
      fifty.map(async (n) => outcomeOf(await inTurn(n).post("/v1/audio/transcriptions", { upload_id }))),
    )
    expect(countBy(outcomes)).toEqual({ 202: 1, upload_already_used: 49 })
    expect(await fleet.takeAll()).toHaveLength(1)
  })

  it("forty creations fill a queue of five exactly", async () => {
    const { inTurn } = await clients()
    const outcomes = await Promise.all(
      fifty.slice(0, 40).map(async (n) => outcomeOf(await inTurn(n).post("/v1/audio/speech", { input: `${n}` }))),
    )
    expect(countBy(outcomes)).toEqual({ 202: 5, queue_full: 35 })
    expect(await fleet.takeAll()).toHaveLength(5)
  })

  /** The bytes behind an upload, and what its row says of them. */
  const stored = ({ id }: Upload) =>
    fleet.backstage(
      Effect.gen(function* () {
        const upload = yield* (yield* UploadStore).findUpload(id as `upl_${string}`)
        const row = upload?.file ?? null
        if (row === null) throw new Error("no file arrived")
        const { content } = yield* (yield* BlobStore).open(row.blobKey)
        return { row, bytes: Buffer.concat([...(yield* Stream.runCollect(content))]) }
      }),
    )
  const uploadedFiles = () =>
    readdirSync(`${fleet.dataDirectory}/blobs/uploads`, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`)

  it("of fifty files sent to one URL, one is accepted, with exactly its bytes", async () => {
    const { all, inTurn } = await clients()
    const before = uploadedFiles()
    const upload = await inTurn(0).announce()
    // Of different lengths and contents, so that a mixture would show.
    const files = fifty.map((n) => new Uint8Array(Buffer.concat([wav(n), Buffer.alloc(2_000 * (n % 7) + n, n)])))
    const outcomes = await Promise.all(files.map(async (file, n) => outcomeOf(await inTurn(n).put(upload, file))))
    const [winner, ...others] = outcomes.flatMap((outcome, n) => (outcome === 204 ? [n] : []))
    expect(others).toEqual([])
    const refusals = new Set(outcomes.filter((outcome) => outcome !== 204))
    expect(["upload_in_progress", "upload_already_completed"]).toEqual(expect.arrayContaining([...refusals]))
    const body = files[winner ?? -1] ?? new Uint8Array(0)
    const { bytes, row } = await stored(upload)
    expect(bytes.equals(body)).toBe(true)
    expect(row).toMatchObject({ bytes: body.length, sha256: createHash("sha256").update(body).digest("hex") })
    // Nor does a loser leave anything behind.
    expect(uploadedFiles().filter((path) => !before.includes(path))).toHaveLength(1)
    for (const client of all) expect(await outcomeOf(await client.put(upload, body))).toBe("upload_already_completed")
  })

  it("a key that a third process revokes is refused by both within 5 s", async () => {
    const { all, keyId } = await clients()
    const statuses = () => Promise.all(all.map(async (client) => (await client.get("/v1/jobs/x")).status))
    expect(await statuses()).toEqual([404, 404])
    const { exit, stderr } = await fleet.command("key", "revoke", keyId)
    const revokedAt = performance.now()
    expect(exit, stderr).toBe(0)
    const servedAt = all.map(() => revokedAt)
    await until(async () => {
      const askedAt = performance.now()
      const now = await statuses()
      now.forEach((status, at) => status === 404 && (servedAt[at] = askedAt))
      return now.every((status) => status === 401) ? true : undefined
    })
    for (const at of servedAt) expect(at - revokedAt).toBeLessThan(5_000)
  })
})
