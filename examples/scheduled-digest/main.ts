// Digests on weekday mornings: `node --conditions=@kiln/source examples/scheduled-digest/main.ts <directory> [--every 1000]`.
// With `--every`, each team gets a digest at this interval in milliseconds, and the program ends after three of them.
import { join } from "node:path"
import { parseArgs } from "node:util"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import { digestKind, syncDigests, type Team } from "./digest.ts"

const { positionals, values } = parseArgs({ allowPositionals: true, options: { every: { type: "string" } } })
const [directory] = positionals
if (directory === undefined) throw new Error("pass a directory for the database")

const teams: ReadonlyArray<Team> = [
  { name: "design", timeZone: "Europe/Berlin", members: ["ada@example.com", "grace@example.com"] },
  { name: "sales", timeZone: "America/New_York", members: ["alan@example.com"] },
]
const kind = digestKind({
  findTeam: async (name) => teams.find((team) => team.name === name),
  headlines: async (team) => [`News for ${team}`],
  sendMail: async (to, text) => console.log(`to ${to}: ${text}`),
})
await using engine = await createEngine({
  store: sqliteStore({ path: join(directory, "kiln.db") }),
  blobs: fileBlobs({ directory: join(directory, "blobs") }),
  kinds: [kind],
})
const everyMs = Number(values.every)
await syncDigests(engine, teams, values.every === undefined ? undefined : () => ({ everyMs }))
for (const { cron, everyMs: every, name, timeZone } of await engine.schedules.list())
  console.log(name, cron === undefined ? `every ${every} ms` : `${cron} in ${timeZone}`)

if (values.every === undefined) {
  // A digest at once, beside the schedule.
  await engine.submitAndWait("digest", { team: "design" })
} else {
  let digests = 0
  for await (const event of engine.events()) if (event.type === "completed" && ++digests === 3) break
  console.log(`${digests} digests`)
}
