import { fixtures } from "@kiln/conformance"
import { IdGenerator, JobStore, Switchboard } from "@kiln/core/ports"
import { createKey } from "@kiln/service-lab"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { installations } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const unknownKey = "key_00000000000000000000000000"
const unset = {
  currency: null,
  day: null,
  month: null,
  spent_today: null,
  spent_this_month: null,
  reserved: null,
}
const unspent = { spent_today: "0", spent_this_month: "0", reserved: "0" }

/** Opens the gate of the fixtures' live jobs, and accepts one that may cost 0.00015 at most. */
const reserve = (owner: Pick<ReturnType<typeof fixtures.newJob>, "projectId" | "keyId">) =>
  Effect.gen(function* () {
    const board = yield* Switchboard
    for (const name of ["ai", "audio"] as const) yield* board.setSwitch(name, true)
    yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.000015" } })
    yield* board.activatePrice("svc-audio", true)
    const gate = { ...fixtures.audioGate, liveWorker: null }
    const [outcome] = yield* (yield* JobStore).createJobs([fixtures.newLiveJob(1, { ...owner, gate })])
    return outcome?._tag
  })

describe.each(installations)("spend caps on %s", (_name, open) => {
  it("of a project are set, shown, changed and removed", async () => {
    await using installation = await open()
    const { env } = installation
    const key = await installation.use(Effect.provide(createKey({ mode: "live" }), IdGenerator.layer))
    const { projectId: project_id } = key
    const cap = (...flags: ReadonlyArray<string>) => jsonOf(["project", "cap", project_id, ...flags], env)
    expect(await cap()).toEqual({ project_id, ...unset })
    expect(await jsonOf(["project", "cap"], env)).toEqual({ caps: [] })
    expect((await runInProcess(["project", "cap"], env)).stdout).toBe("no project has a spend cap\n")

    const set = { project_id, currency: "usd", day: "2.5", month: null, ...unspent }
    expect(await cap("--day", "2.50")).toEqual(set)
    expect(await cap("--month", "40", "--currency", "eur")).toEqual({ ...set, currency: "eur", month: "40" })
    expect(await cap("--day", "none")).toEqual({ ...set, currency: "eur", day: null, month: "40" })
    expect(await cap("--currency", "usd")).toMatchObject({ currency: "usd", month: "40" })
    expect(await installation.use(reserve({ projectId: project_id, keyId: key.id }))).toBe("Created")
    const reserved = { ...set, day: null, month: "40", reserved: "0.00015" }
    expect(await cap()).toEqual(reserved)
    expect(await jsonOf(["project", "cap"], env)).toEqual({ caps: [reserved] })
    const { stdout } = await runInProcess(["project", "cap", project_id], env)
    expect(stdout).toMatch(/^PROJECT +CURRENCY +DAY +SPENT TODAY +MONTH +SPENT THIS MONTH +RESERVED\n/)
    expect(stdout).toMatch(/usd +no cap +0 +40 +0 +0\.00015\n$/)
    await cap("--month", "0.0001")
    expect((await runInProcess(["project", "cap", project_id], env)).stdout).toContain(
      "more than the cap was spent or reserved this month: live jobs are refused",
    )

    expect(await cap("--clear")).toEqual({ project_id, ...unset })
    const { changes } = await jsonOf(["audit", "list"], env)
    expect(changes.map(({ action }: { action: string }) => action)).toEqual([
      "project.cap.clear",
      ...Array.from({ length: 5 }, () => "project.cap.set"),
    ])
    expect(changes[5]).toMatchObject({
      subject: project_id,
      details: { currency: "usd", day: "2.5", month: null },
    })
  })

  it("of a key are set, shown and removed", async () => {
    await using installation = await open()
    const { env } = installation
    const { id: key_id } = await installation.use(Effect.provide(createKey({ mode: "live" }), IdGenerator.layer))
    const set = { key_id, currency: "usd", day: "5", month: null, ...unspent }
    expect(await jsonOf(["key", "cap", key_id, "--day", "5"], env)).toEqual(set)
    expect(await jsonOf(["key", "cap"], env)).toEqual({ caps: [set] })
    expect((await runInProcess(["key", "cap", key_id], env)).stdout).toContain(key_id)
    expect(await jsonOf(["key", "cap", key_id, "--day", "none"], env)).toEqual({ key_id, ...unset })
    expect((await jsonOf(["audit", "list"], env)).changes[0]).toMatchObject({
      action: "key.cap.clear",
      subject: key_id,
    })
  })

  it("refuse what makes no sense", async () => {
    await using installation = await open()
    const { env } = installation
    const { id, projectId } = await installation.use(Effect.provide(createKey({}), IdGenerator.layer))
    for (const amount of ["-1", "1e3", "1,50", "lots", ""])
      expect(await refusalOf(["key", "cap", id, `--day=${amount}`], env, 2)).toContain("--day must be a plain decimal")
    expect(await refusalOf(["key", "cap", id, "--month", "1", "--currency", "USD"], env, 2)).toContain("--currency")
    expect(await refusalOf(["key", "cap", id, "--currency", "usd"], env, 2)).toContain("needs --day or --month")
    expect(await refusalOf(["key", "cap", id, "--clear", "--day", "1"], env, 2)).toContain("no other flag")
    expect(await refusalOf(["project", "cap", "--day", "1"], env, 2)).toContain("which project?")
    expect(await refusalOf(["project", "cap", "nobody", "--day", "1"], env, 1)).toContain('no project "nobody"')
    expect(await refusalOf(["key", "cap", unknownKey, "--day", "1"], env, 1)).toContain(`there is no key ${unknownKey}`)
    expect(await jsonOf(["project", "cap", projectId], env)).toMatchObject({ currency: null })
  })
})
