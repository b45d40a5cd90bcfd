import { existsSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { fileBlobs } from "@kiln/adapter-blobs"
import { postgresStore } from "@kiln/adapter-postgres"
import { jobKind } from "@kiln/core"
import { z } from "zod"

/** The processes share a database and a directory. On several machines, use `unstorageBlobs` with an object store. */
export const sharedStores = (url: string, directory: string) => ({
  store: postgresStore({ url }),
  blobs: fileBlobs({ directory }),
})

/** A file that the printer creates once it is warm. */
export const warmFile = (directory: string): string => join(directory, "printer-is-warm")

/** Slow work that reports which process did it. */
export const printKind = (directory: string) =>
  jobKind({
    name: "print",
    request: z.strictObject({ page: z.int() }),
    output: z.object({ printedBy: z.int() }),
    files: ["sheet"],
    run: async ({ writeFile, request, signal }) => {
      while (!existsSync(warmFile(directory))) await setTimeout(20, undefined, { signal })
      const data = new TextEncoder().encode(`page ${request.page}`)
      await writeFile("sheet", async () => ({ data, mediaType: "text/plain" }))
      return { output: { printedBy: process.pid } }
    },
  })
