import { expect, it } from "vitest"
import { createKey, until } from "@kiln/service-lab"
import { exactSum } from "../live/support/exactSum.ts"
import { Client } from "../crash/support/Client.ts"
import { Fleet, patience } from "./support/Fleet.ts"

/** Two processes accept the jobs of two keys of one project, up to its cap. */

interface Capped {
  readonly day: string
  readonly spent_today: string
  readonly reserved: string
}

const codeOf = async (response: Response): Promise<string | number> => {
  const text = await response.text()
  return response.ok ? response.status : (JSON.parse(text) as { readonly error: { code: string } }).error.code
}

/** A character costs 0.001. */
const ten = "0123456789"

it("two keys that race for the last cent of a cap never pass it, also if a process is killed", patience, async () => {
  await using fleet = await Fleet.open()
  const { live } = fleet.keys
  const { projectId } = live.owner
  const [one, two] = await Promise.all([fleet.api({}), fleet.api({}), fleet.worker()])
  const other = await fleet.backstage(
    createKey({
      mode: "live",
      besides: { secret: "", id: live.owner.keyId, projectId, mode: "live" },
    }),
  )
  const secrets = [live.key, other.secret]
  const clients = [one, two].flatMap(({ url }) => secrets.map((secret) => new Client(url, secret)))
  const set = await fleet.command("project", "cap", projectId, "--day", "0.255", "--json")
  expect(set.exit, set.stderr).toBe(0)
  const cap = async () => JSON.parse((await fleet.command("project", "cap", projectId, "--json")).stdout) as Capped
  const billed = async () => {
    const { stdout } = await fleet.command(
      "billing",
      "export",
      "--from",
      "2020-01-01",
      "--to",
      "2100-01-01",
      "--format",
      "jsonl",
    )
    const lines = stdout.split("\n").filter((line) => line !== "")
    return exactSum(lines.map((line) => (JSON.parse(line) as { readonly amount: string }).amount))
  }
  const ask = (input: string) =>
    Promise.all(clients.map(async (client) => codeOf(await client.post("/v1/audio/speech", { input }))))

  // 25 jobs of 0.010 fit. Some fail, and make room for others.
  const storm = await Promise.all(Array.from({ length: 12 }, (_, n) => ask(n % 4 === 0 ? "fail" : ten)))
  expect(new Set(storm.flat())).toEqual(new Set([202, "spend_cap_reached"]))
  const settled = () =>
    until(async () => {
      const now = await cap()
      expect(Number(now.spent_today) + Number(now.reserved)).toBeLessThanOrEqual(0.255)
      return now.reserved === "0" ? now : undefined
    })
  const first = await settled()
  expect(first.spent_today).toBe(await billed())

  // One process is killed in the middle of the next storm; the cap is then reached to the last cent that fits.
  const later = Promise.all(
    Array.from({ length: 12 }, async () => {
      const answers = await Promise.allSettled(
        clients.map(async (client) => codeOf(await client.post("/v1/audio/speech", { input: ten }))),
      )
      return answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []))
    }),
  )
  one.process.kill("SIGKILL")
  await later
  const survivors = clients.slice(2)
  for (const input of [ten, "1"])
    await until(async () => {
      const codes = await Promise.all(
        survivors.map(async (client) => codeOf(await client.post("/v1/audio/speech", { input }))),
      )
      return codes.includes("spend_cap_reached") ? true : undefined
    })
  const last = await settled()
  expect(last.spent_today).toBe("0.255")
  expect(await billed()).toBe("0.255")
})
