import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, type Scope } from "effect"

/** The path of a store in a new directory, which is removed with the scope. */
export const temporaryFile: Effect.Effect<string, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "kiln-json-"))),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true })),
  ),
  (directory) => join(directory, "kiln.json"),
)
