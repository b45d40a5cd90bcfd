import { createHash } from "node:crypto"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { OperatorTokens } from "@kiln/core/ports"
import { installations } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex")

describe.each(installations)("kiln token on %s", (_name, open) => {
  it("creates tokens that are shown once, lists them without secrets, and revokes them, all in the audit log", async () => {
    await using installation = await open()
    const { env } = installation
    const find = (secret: string) =>
      installation.use(Effect.flatMap(OperatorTokens, (tokens) => tokens.findToken(hashOf(secret))))

    const flags = ["--name", "alice", "--role", "operate", "--role", "content", "--expires", "90d"]
    const { token, token_id: id } = await jsonOf(["token", "create", ...flags], env)
    expect(token).toMatch(/^kiln_ops_[0-9A-Za-z]{49}$/)
    expect(await find(token)).toMatchObject({ id, name: "alice", roles: ["operate", "content"], revokedAt: null })

    const listed = await runInProcess(["token", "list"], env)
    expect(listed.stdout).toMatch(/alice +operate content +active/)
    expect(listed.stdout).not.toContain("kiln_ops_")
    expect((await jsonOf(["token", "list"], env)).tokens).toMatchObject([{ token_id: id, status: "active" }])

    await jsonOf(["token", "revoke", id], env)
    expect(await find(token)).toBeUndefined()
    expect((await jsonOf(["token", "list"], env)).tokens).toMatchObject([{ token_id: id, status: "revoked" }])
    const { changes } = await jsonOf(["audit", "list"], env)
    expect(changes).toMatchObject([
      { action: "token.revoke", subject: id },
      { action: "token.create", subject: id, details: { name: "alice", roles: ["operate", "content"] } },
    ])
    expect(JSON.stringify(changes)).not.toContain("kiln_ops_")
  })

  it("refuses an unknown token, a wrong duration and an invalid name", async () => {
    await using installation = await open()
    const { env } = installation
    expect(await refusalOf(["token", "revoke", "tok_x"], env, 1)).toContain("there is no token tok_x")
    const create = (...more: ReadonlyArray<string>) => refusalOf(["token", "create", "--role", "view", ...more], env, 2)
    expect(await create("--name", "a", "--expires", "soon")).toContain("--expires")
    expect(await create("--name", "")).toContain("--name")
  })
})
