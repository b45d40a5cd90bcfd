import { FileBlobStore } from "@kiln/adapter-blobs"
import { fixtures } from "@kiln/conformance"
import { KeyDirectory } from "@kiln/core/ports"
import * as Effect from "effect/Effect"
import { claimBlobStore } from "../../src/installation/claimBlobStore.ts"
import type { Installation } from "../support/installations.ts"

/** Prepares an installation in which the doctor finds nothing to do: a project, a key, and a blob store that is its own. */
export const makeWell = (installation: Installation): Promise<void> =>
  installation.use(
    Effect.gen(function* () {
      const keys = yield* KeyDirectory
      yield* keys.createProject({ id: fixtures.projectId(1), name: "one" })
      yield* keys.createKey(fixtures.newApiKey(1))
      yield* Effect.provide(claimBlobStore, FileBlobStore.layer({ directory: installation.directory }))
    }),
  )
