import { describe, expect, it } from "vitest"
import { KilnProcess, run, runJson, serve, temporaryDirectory, until } from "@kiln/service-lab"
import { Api } from "./support/Api.ts"

/** Runs a command with this text in its standard input. */
const runWithInput = async (args: ReadonlyArray<string>, env: Readonly<Record<string, string>>, input: string) => {
  await using kiln = new KilnProcess(
    args,
    { ...env, INPUT: input },
    {
      inside: ["sh", "-c", 'printf "%s" "$INPUT" | sh -c "$0"'],
    },
  )
  return await kiln.ended()
}

describe("kiln beside a server", () => {
  it("shows, retries and purges jobs, rotates and identifies keys, disables projects, and keeps a log of it", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    await using server = await serve(env)
    const first = server.listening.first_key
    const api = new Api(server.listening.url, first?.key ?? "")
    const [done, failed] = [await api.createSpeech("hello"), await api.createSpeech("sandbox:fail:content_rejected")]
    await Promise.all([api.finished(done), api.finished(failed)])

    expect(await runJson(["job", "list", "--status", "failed"], env)).toMatchObject({
      jobs: [{ job_id: failed, error_code: "content_rejected" }],
    })
    expect((await runJson(["queue", "stats"], env)).queues).toMatchObject([{ done_24h: 1, failed_24h: 1 }])
    const retried = await runJson(["job", "retry", failed], env)
    expect(await api.finished(retried.job_id)).toMatchObject({ status: "failed" })
    const { output } = await api.job(done)
    expect((await fetch(output?.audio_url ?? "")).status).toBe(200)
    await runJson(["job", "purge-data", done], env)
    expect((await fetch(output?.audio_url ?? "")).status).toBe(410)

    const { key } = await runJson(["key", "rotate", first?.key_id ?? ""], env)
    const rotated = new Api(server.listening.url, key)
    expect([(await api.job(done)).id, (await rotated.job(done)).id]).toEqual([done, done])
    const identified = await runWithInput(["key", "identify", "--json"], env, first?.key ?? "")
    expect(identified).toMatchObject({ exit: 0, stderr: "" })
    expect(JSON.parse(identified.stdout)).toMatchObject({ key_id: first?.key_id, secret_status: "active" })
    await runJson(["project", "disable", "default"], env)
    expect(await until(async () => ((await rotated.speak("x")).status === 401 ? "rejected" : undefined))).toBe(
      "rejected",
    )

    const { changes } = await runJson(["audit", "list"], env)
    expect(changes.map(({ action }: { action: string }) => action)).toEqual([
      "project.disable",
      "key.rotate",
      "job.erase-data",
      "job.retry",
      "key.create",
    ])
    for (const args of [
      ["job", "list"],
      ["audit", "list"],
      ["config", "show"],
      ["signing-key", "list"],
    ])
      expect((await run(args, env)).exit).toBe(0)
  })

  it("fails if its result cannot be written, because a secret is shown only once", async () => {
    using data = temporaryDirectory()
    const env = { KILN_DATA_DIR: data.path }
    expect((await run(["project", "create", "acme", "--init"], env)).exit).toBe(0)
    await using key = new KilnProcess(
      ["key", "create", "--project", "acme", "--mode", "test", "--scope", "audio.create"],
      env,
      {
        inside: ["sh", "-c", 'sh -c "$0" > /dev/full'],
      },
    )
    expect(await key.ended()).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/^kiln: cannot write the output: ENOSPC/),
    })
  })

  it("completes its commands in a shell", async () => {
    const { exit, stdout } = await run(["--completions", "bash"])
    expect(exit).toBe(0)
    for (const word of ["job", "erase-data", "retention", "signing-key"]) expect(stdout).toContain(word)
  })
})
