import { postgresStore } from "@kiln/adapter-postgres"
import { sqliteStore } from "@kiln/adapter-sqlite"
import { createEngine } from "@kiln/core"
import { tokens } from "./tokens.ts"

/** Runs jobs until it is killed. */
const [place = ""] = process.argv.slice(2)
const store = place.startsWith("postgres") ? postgresStore({ url: place }) : sqliteStore({ path: place })
await createEngine({ store, kinds: [tokens], settings: { leaseDurationMs: 1_000 } })
process.stdout.write("ready\n")
