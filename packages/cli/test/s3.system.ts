import { startFauxqs } from "fauxqs"
import { KilnProcess, run, serve, temporaryDirectory } from "@kiln/service-lab"
import { describe, expect, it } from "vitest"
import { Api } from "./support/Api.ts"

/** An S3 server with one bucket. Which signatures it would accept is tested in the adapter. */
const startS3 = async () => {
  const server = await startFauxqs({ port: 0, logger: false })
  server.createBucket("files")
  const endpoint = `http://127.0.0.1:${server.port}`
  return {
    endpoint,
    keys: async () =>
      [...(await (await fetch(`${endpoint}/files?list-type=2`)).text()).matchAll(/<Key>(.*?)<\/Key>/g)].map(
        ([, key = ""]) => key,
      ),
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

const keys = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "very-secret" }

describe("blobs in S3", () => {
  it("are written by one process and served by another, and the doctor reads them", async () => {
    await using s3 = await startS3()
    using data = temporaryDirectory()
    const env = { ...keys, KILN_DATA_DIR: data.path, KILN_BLOBS: `s3://files/kiln?endpoint=${s3.endpoint}` }
    await using api = await serve({ ...env, KILN_ROLE: "api" })
    const client = new Api(api.listening.url, api.listening.first_key?.key ?? "")
    await using worker = new KilnProcess(["serve"], { ...env, KILN_ROLE: "worker" })
    const job = await client.finished(await client.createSpeech("Kept in a bucket."))
    expect(job.status).toBe("done")
    const audio = await fetch(job.output?.audio_url ?? "")
    expect([audio.status, (await audio.arrayBuffer()).byteLength > 1_000]).toEqual([200, true])
    expect((await s3.keys()).some((key) => key.startsWith("kiln/jobs/"))).toBe(true)
    const { exit, stdout } = await run(["doctor", "--json"], env)
    const { checks } = JSON.parse(stdout)
    expect(checks).toContainEqual(
      expect.objectContaining({
        name: "bucket",
        status: "ok",
        summary: `the blob store s3://files/kiln at ${s3.endpoint} can be listed`,
      }),
    )
    expect(checks).toContainEqual(expect.objectContaining({ name: "blobs", status: "ok", summary: "1 file verified" }))
    expect(exit).toBe(0)
    worker.kill("SIGTERM")
    expect((await worker.ended()).exit).toBe(0)
  })

  it("redirects downloads to the bucket with KILN_FILES=redirect, and answers what the bucket cannot", async () => {
    await using s3 = await startS3()
    using data = temporaryDirectory()
    const blobs = `s3://files/kiln?endpoint=${s3.endpoint}`
    const env = { ...keys, KILN_DATA_DIR: data.path, KILN_BLOBS: blobs, KILN_FILES: "redirect" }
    await using kiln = await serve(env)
    const client = new Api(kiln.listening.url, kiln.listening.first_key?.key ?? "")
    const id = await client.createSpeech("Fetched from a bucket.")
    const url = (await client.finished(id)).output?.audio_url ?? ""
    const left = Number(new URL(url).searchParams.get("e")) - Date.now() / 1000
    const redirect = await fetch(url, { redirect: "manual" })
    expect(redirect.status).toBe(302)
    expect(redirect.headers.get("cache-control")).toBe("private, no-store")
    const location = new URL(redirect.headers.get("location") ?? "")
    expect(location.origin).toBe(s3.endpoint)
    expect(Number(location.searchParams.get("X-Amz-Expires"))).toBeLessThanOrEqual(left)
    expect(location.searchParams.get("response-content-type")).toBe("audio/mpeg")
    const audio = await fetch(url)
    expect([audio.status, (await audio.arrayBuffer()).byteLength > 1_000]).toEqual([200, true])
    expect((await fetch(url, { method: "HEAD", redirect: "manual" })).status).toBe(200)
    expect((await fetch(`${url.slice(0, -1)}${url.endsWith("A") ? "E" : "A"}`, { redirect: "manual" })).status).toBe(
      403,
    )
    await fetch(`${kiln.listening.url}/v1/jobs/${id}/data`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${kiln.listening.first_key?.key}` },
    })
    expect((await fetch(url, { redirect: "manual" })).status).toBe(410)
    expect((await fetch(location)).status).toBe(404)
  })

  it.each([
    [
      "a redirect without S3",
      "file:",
      { KILN_FILES: "redirect" },
      2,
      "KILN_FILES can be redirect only with KILN_BLOBS",
    ],
    ["no region", "s3://files", keys, 2, "region must be the region of the bucket"],
    ["an invalid bucket", "s3://Fi_les?region=a", keys, 2, "bucket must be the name of an S3 bucket"],
    ["no key", "s3://files?endpoint={s3}", { HOME: "/nowhere" }, 1, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"],
    ["no such bucket", "s3://other?endpoint={s3}", keys, 1, "create the bucket, or correct its name"],
    ["nobody listening", "s3://files?endpoint=http://127.0.0.1:1", keys, 1, "cannot reach 127.0.0.1:1"],
  ])("%s: the start fails and says what to do", async (_, blobs, variables, code, message) => {
    await using s3 = await startS3()
    using data = temporaryDirectory()
    const env = { ...variables, KILN_DATA_DIR: data.path, KILN_BLOBS: blobs.replace("{s3}", s3.endpoint) }
    const { exit, stderr } = await run(["serve"], env)
    expect(stderr).toContain("KILN_BLOBS")
    expect(stderr).toContain(message)
    expect(stderr).not.toContain("very-secret")
    expect(exit).toBe(code)
  })
})
