import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freshDatabase } from "@kiln/postgres-lab"
import type { StoreName } from "./Service.ts"

/** Where a service stores its data, initially empty. */
export interface Place extends AsyncDisposable {
  readonly directory: string
  /** Of the Postgres database; empty for a store that is in the directory. */
  readonly databaseUrl: string
}

export const openPlace = async (store: StoreName): Promise<Place> => {
  const database = store === "postgres" ? await freshDatabase() : undefined
  const directory = mkdtempSync(join(tmpdir(), "kiln-contract-"))
  return {
    directory,
    databaseUrl: database?.url ?? "",
    [Symbol.asyncDispose]: async () => {
      rmSync(directory, { recursive: true, force: true })
      await database?.dispose()
    },
  }
}

export const blobDirectory = ({ directory }: Place): string => join(directory, "blobs")
