import { randomBytes } from "node:crypto"
import { SecretStore } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { installations, type Installation, sqliteInstallation } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

/** Does what the first process does that starts without KILN_SIGNING_KEYS. */
const generate = (installation: Installation): Promise<unknown> =>
  installation.use(Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing", randomBytes(32))))
const fingerprint = expect.stringMatching(/^[0-9a-f]{12}$/)

describe.each(installations)("kiln signing-key on %s", (_name, open) => {
  it("adds, uses and drops keys, and lists which signs", async () => {
    await using installation = await open()
    const { env } = installation
    expect(await jsonOf(["signing-key", "list"], env)).toEqual({ keys: [] })
    await generate(installation)
    const key = (kid: string, signs: boolean) => ({ kid, fingerprint, source: "store", signs })
    expect(await jsonOf(["signing-key", "list"], env)).toEqual({ keys: [key("k1", true)] })
    const added = await jsonOf(["signing-key", "add", "next", "--generate"], env)
    expect(added).toEqual({ kid: "next", fingerprint, added: true })
    expect((await jsonOf(["signing-key", "list"], env)).keys).toEqual([key("k1", true), key("next", false)])
    expect(await refusalOf(["signing-key", "drop", "k1"], env, 1)).toContain("k1 signs new URLs")
    expect(await jsonOf(["signing-key", "use", "next"], env)).toEqual({ kid: "next", signs: true })
    expect((await jsonOf(["signing-key", "list"], env)).keys).toEqual([key("next", true), key("k1", false)])
    expect(await jsonOf(["signing-key", "drop", "k1"], env)).toEqual({ dropped: true })
    expect((await jsonOf(["signing-key", "list"], env)).keys).toEqual([key("next", true)])
    expect(await refusalOf(["signing-key", "drop", "k1"], env, 1)).toContain("the store has no key named k1")
    expect(await refusalOf(["signing-key", "use", "k1"], env, 1)).toContain("the store has no key named k1")
  })
})

describe("kiln signing-key", () => {
  it("adopts the key of KILN_SIGNING_KEYS from standard input, with the same fingerprint, and never prints it", async () => {
    await using installation = await sqliteInstallation()
    await generate(installation)
    const secret = randomBytes(32).toString("base64")
    const configured = { ...installation.env, KILN_SIGNING_KEYS: `own:${secret}` }
    const added = await runInProcess(["signing-key", "add", "own"], installation.env, `${secret}\n`)
    expect(added.stdout).toMatch(/^the key own \([0-9a-f]{12}\) was added, and verifies URLs but does not sign them\n/)
    expect(added.stdout + added.stderr).not.toContain(secret)
    const { keys } = await jsonOf(["signing-key", "list"], configured)
    expect(keys).toMatchObject([
      { kid: "own", source: "setting", signs: true },
      { kid: "k1", source: "store", signs: false },
      { kid: "own", source: "store", signs: false },
    ])
    expect(keys[0].fingerprint).toBe(keys[2].fingerprint)
    expect((await runInProcess(["signing-key", "list"], configured)).stdout).toMatch(
      /^KID +FINGERPRINT +FROM\nown +[0-9a-f]{12} +KILN_SIGNING_KEYS +signs\nk1 +[0-9a-f]{12} +store +verifies\nown +[0-9a-f]{12} +store +verifies\n$/,
    )
    expect(await refusalOf(["signing-key", "add", "own", "--generate"], installation.env, 1)).toContain(
      "another key named own",
    )
    expect(await jsonOf(["signing-key", "drop"], configured)).toEqual({ dropped: true })
    expect(await jsonOf(["signing-key", "drop"], configured)).toEqual({ dropped: false })
  })

  it.each([
    ["OWN", "x".repeat(43), "the kid must be"],
    ["own", "", "standard input is empty"],
    ["own", "c2hvcnQ", "at least 32 bytes"],
    ["own", "not base64!", "must be valid base64"],
    ["own", `${"A".repeat(43)},b:${"A".repeat(43)}`, "must be one key"],
  ])("add %s refuses the input %j", async (kid, input, message) => {
    await using installation = await sqliteInstallation()
    const said = await refusalOf(["signing-key", "add", kid], installation.env, 2, input)
    expect(said).toContain(message)
    expect(await jsonOf(["signing-key", "list"], installation.env)).toEqual({ keys: [] })
  })
})
