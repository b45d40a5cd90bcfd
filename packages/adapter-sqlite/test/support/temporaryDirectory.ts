import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, type Scope } from "effect"

/** A directory that is removed when its scope closes. */
export const temporaryDirectory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "kiln-sqlite-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** The path of a database in a new directory. */
export const temporaryFile: Effect.Effect<string, never, Scope.Scope> = Effect.map(temporaryDirectory, (directory) =>
  join(directory, "kiln.db"),
)
