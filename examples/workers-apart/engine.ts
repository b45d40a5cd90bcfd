import { existsSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { fileBlobs } from "@kiln/adapter-blobs"
import { postgresStore } from "@kiln/adapter-postgres"
import { jobKind } from "@kiln/core"
import { z } from "zod"

/** What the processes share: a database, and a directory that all of them see. Across machines, `unstorageBlobs` over an object store. */
export const sharedStores = (url: string, directory: string) => ({
  store: postgresStore({ url }),
  blobs: fileBlobs({ directory }),
})

/** Where the printer says that it is warm. */
export const warmFile = (directory: string): string => join(directory, "printer-is-warm")

/** Work that takes a while, and returns which worker did it. */
export const printKind = (directory: string) =>
  jobKind({
    name: "print",
    request: z.strictObject({ page: z.int() }),
    output: z.object({ printedBy: z.int() }),
    files: ["sheet"],
    run: async ({ file, request, signal }) => {
      while (!existsSync(warmFile(directory))) await setTimeout(20, undefined, { signal })
      const data = new TextEncoder().encode(`page ${request.page}`)
      await file("sheet", async () => ({ data, mediaType: "text/plain" }))
      return { output: { printedBy: process.pid } }
    },
  })
