import { fixtures } from "@kiln/conformance"
import { SecretStore } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { seedEveryState } from "../support/copiedRecords.ts"
import { sqliteInstallation } from "../support/installations.ts"
import { writeSchedule } from "../support/scheduledRecords.ts"
import { runInProcess } from "../support/runInProcess.ts"

const { jobId, keyId } = fixtures

const key = ["key", "create", "--project", "one", "--mode", "test", "--scope", "audio.create"]
const prices = ["--input-audio-second", "0.0001", "--input-character", "0.000015", "--output-token", "0.00002"]

/**
 * Every command that the service promises, in an order in which each succeeds. A second run, for people, repeats what may be repeated.
 * `serve` and `billing export` have outputs and tests of their own.
 */
const commands: ReadonlyArray<readonly [command: ReadonlyArray<string>, fields: ReadonlyArray<string>]> = [
  [
    ["project", "create", "acme"],
    ["project_id", "name"],
  ],
  [["project", "list"], ["projects"]],
  [key, ["key", "key_id", "project_id", "mode", "scopes"]],
  [[...key, "--name", "ci", "--expires", "90d"], ["expires_at"]],
  [["key", "list"], ["keys"]],
  [
    ["key", "rotate", keyId(1), "--overlap", "24h"],
    ["key", "key_id", "old_secret_expires_at"],
  ],
  [
    ["key", "revoke", keyId(1)],
    ["key_id", "revoked_at"],
  ],
  [
    ["price", "set", "svc-audio", "--currency", "usd", ...prices],
    ["name", "version", "active"],
  ],
  [["price", "set", "svc-image", "--currency", "usd", "--image", "0.011"], ["unit_amounts"]],
  [["price", "list"], ["prices"]],
  [
    ["price", "activate", "svc-image"],
    ["name", "active"],
  ],
  [
    ["price", "deactivate", "svc-image"],
    ["name", "active"],
  ],
  [
    ["switch", "on", "ai"],
    ["switch", "status"],
  ],
  [
    ["switch", "off", "ai"],
    ["switch", "status"],
  ],
  [
    ["switch", "status"],
    ["switches", "forced_off"],
  ],
  [
    ["job", "show", jobId(4)],
    ["job_id", "status"],
  ],
  [["job", "list", "--status", "done"], ["jobs"]],
  [["job", "cancel", jobId(1)], []],
  [["job", "purge-data", jobId(4)], []],
  [["queue", "stats"], ["queues"]],
  [["schedule", "list"], ["schedules"]],
  [
    ["schedule", "pause", "nightly"],
    ["name", "paused"],
  ],
  [
    ["schedule", "resume", "nightly"],
    ["name", "paused"],
  ],
  [
    ["schedule", "remove", "nightly"],
    ["name", "removed"],
  ],
  [
    ["delivery", "list"],
    ["deliveries", "pending"],
  ],
  [
    ["retention", "run", "--dry-run"],
    ["dry_run", "bytes"],
  ],
  [
    ["retention", "run"],
    ["dry_run", "bytes"],
  ],
  [
    ["doctor", "--limit", "1m"],
    ["ok", "checks"],
  ],
]

/** These say that it was done before, or find what the seed leaves without files. */
const mayFail = (command: ReadonlyArray<string>): boolean =>
  ["project create", "key rotate", "job cancel", "schedule", "doctor"].some((words) =>
    command.join(" ").startsWith(words),
  )

describe("every command of the service", () => {
  it("prints one JSON document with --json, and something else for people", async () => {
    await using installation = await sqliteInstallation()
    await installation.use(
      Effect.andThen(
        Effect.andThen(seedEveryState, writeSchedule("nightly", 5_000)),
        Effect.flatMap(SecretStore, (secrets) => secrets.getOrCreate("signing", new Uint8Array(32).fill(7))),
      ),
    )
    const run = (command: ReadonlyArray<string>) => runInProcess(command, installation.env)
    for (const [command, fields] of commands) {
      const words = command.join(" ")
      const json = await run([...command, "--json"])
      expect({ words, exit: json.exit, stderr: command[0] === "doctor" ? "" : json.stderr }).toEqual({
        words,
        exit: command[0] === "doctor" ? 1 : 0,
        stderr: "",
      })
      const document = JSON.parse(json.stdout) as object
      for (const field of fields) expect({ words, document }).toHaveProperty(`document.${field}`)
      const { exit, stdout } = await run(command)
      if (exit !== 0 && mayFail(command)) continue
      expect({ words, exit }).toEqual({ words, exit: 0 })
      expect(stdout.trim()).not.toBe("")
      expect(stdout.startsWith("{")).toBe(false)
    }
  })
})
